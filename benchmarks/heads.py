"""How fast are the heads' layers, and what memory do they take?

    python benchmarks/heads.py [--rounds 7] [--only dft|lml]

1. DFT: forward and backward of W_DFT x by inverse FFT, by the whole matrix, by blocks of it, and by the route that the
   layer takes by itself. Goal: that one at most 10 % slower than the better of FFT and matrix.
2. LML: forward and backward of the projection, of softmax, and of a plain bisection (which leaves nu out of its
   gradient), on normal logits of deviation 1 and 3. Goals at each: at most 3x softmax, and the slowest k at most 1.5x
   the fastest.

2 threads; routes take turns, and the best time of the rounds counts. Memory is what a process of its own adds to its
size, the batch of logits and its gradient included. Exit code 1 if a goal does not hold.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

import named_figures

LABELS, FREQUENCIES, BATCH = (8_921, 100_000, 1_000_000), (8, 50, 80), 32
ROUTES = ("fft", "dense", "blocks", "auto")
SLOWER = 1.10
LML_LABELS, LML_BATCH, LML_K = 10_000, 128, (1, 5, 50, 500, 5_000)
LML_SCALES, LML_GOAL, SPREAD = (1.0, 3.0), 3.0, 1.5
LML_ROUNDS = 8  # times as many rounds for LML as for DFT
THREADS = 2


def best_times(acts: dict, rounds: int, calls: int = 3) -> dict[str, float]:
    """Seconds of each act, best of all rounds; they take turns, so that other work slows down all of them alike."""
    best = dict.fromkeys(acts, float("inf"))
    for _ in range(rounds + 1):
        for name, act in acts.items():
            for _ in range(calls):
                start = time.perf_counter()
                act()
                best[name] = min(best[name], time.perf_counter() - start)
    return best


# ---- DFT


def dft_step(n: int, k: int, route: str):
    """One forward and backward of the fixed product, without the projection that all routes share."""
    import torch

    from xpipe.heads import DFT

    head = DFT(1, n, k, route=route)
    x = torch.randn(BATCH, 2 * k + 1, requires_grad=True)
    grad = torch.randn(BATCH, n)

    def step() -> None:
        x.grad = None
        head._product(x).backward(grad)

    return step


def run_route(n: int, k: int, route: str) -> dict:
    """In a process of its own: MB that the fixed product adds."""
    import torch

    from xpipe.ground.machine import peak_bytes, reset_peak

    torch.set_num_threads(THREADS)
    dft_step(8, 2, route)()
    reset_peak()
    before = peak_bytes()
    step = dft_step(n, k, route)
    for _ in range(2):
        step()
    return {"memory": (peak_bytes() - before) / 1e6}


def compare_routes(console, rounds: int) -> list[tuple[str, str, bool]]:
    """Times and memory of all routes; gives the goals."""
    from rich.table import Table

    columns = [f"{route} {unit}" for unit in ("ms", "MB") for route in ROUTES]
    table = Table("labels", "k", *columns, "auto/better",
                  title=f"DFT, forward and backward, batch {BATCH}")  # fmt: skip
    worst, where = 0.0, ""
    for n in LABELS:
        for k in FREQUENCIES:
            acts = {route: dft_step(n, k, route) for route in ROUTES}
            times = best_times(acts, rounds if n < 1_000_000 else 2, 3 if n < 1_000_000 else 2)
            del acts
            memory = {}
            for route in ROUTES:
                command = [sys.executable, __file__, "--run", route, "--labels", str(n), "--frequencies", str(k)]
                found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                memory[route] = json.loads(found)["memory"]
            ratio = times["auto"] / min(times["fft"], times["dense"])
            if ratio > worst:
                worst, where = ratio, f"{n:,} labels, k = {k}"
            table.add_row(f"{n:,}", str(k), *(f"{1e3 * times[route]:.2f}" for route in ROUTES),
                          *(f"{memory[route]:.0f}" for route in ROUTES), f"{ratio:.2f}")  # fmt: skip
    console.print(table)
    named_figures.record("DFT: auto over the better of FFT and matrix", worst)
    return [(f"DFT: auto at most {SLOWER:g}x the better of FFT and matrix", f"{worst:.2f}x ({where})", worst <= SLOWER)]


# ---- LML


def plain_bisection(x, k: int):
    """The projection by halving a bracket to float32's precision; nu counts as constant in the gradient."""
    import torch

    n = x.shape[1]
    goal = torch.logit(torch.tensor(k / n))
    low = goal - x.detach().amax(1, keepdim=True)
    high = goal - x.detach().amin(1, keepdim=True)
    for _ in range(26):
        middle = (low + high) / 2
        under = torch.sigmoid(x.detach() + middle).sum(1, keepdim=True) < k
        low, high = torch.where(under, middle, low), torch.where(under, high, middle)
    return torch.sigmoid(x + (low + high) / 2)


def compare_projections(console, rounds: int) -> list[tuple[str, str, bool]]:
    """LML against softmax and plain bisection; gives the goals."""
    import torch
    from rich.table import Table

    from xpipe.heads import lml_projection

    table = Table("logits", "k", "softmax ms", "LML ms", "bisection ms", "LML / softmax", "sum - k",
                  title=f"LML, forward and backward, {LML_LABELS:,} labels, batch {LML_BATCH}, float32")  # fmt: skip
    ratios: dict[float, dict[int, float]] = {}
    seconds: dict[float, dict[int, float]] = {}
    for scale in LML_SCALES:
        x = (scale * torch.randn(LML_BATCH, LML_LABELS, generator=torch.Generator().manual_seed(0))).requires_grad_()
        grad = torch.randn(LML_BATCH, LML_LABELS, generator=torch.Generator().manual_seed(1))

        def step(project, x=x, grad=grad) -> None:
            x.grad = None
            project(x).backward(grad)

        for k in LML_K:
            times = best_times(
                {
                    "softmax": lambda: step(lambda z: torch.softmax(z, 1)),
                    "lml": lambda k=k: step(lambda z: lml_projection(z, k)),
                    "bisection": lambda k=k: step(lambda z: plain_bisection(z, k)),
                },
                LML_ROUNDS * rounds,  # steps of a millisecond: the best of few would be luck
                4,
            )
            off = float((lml_projection(x.detach(), k).double().sum(1) - k).abs().max())
            ratios.setdefault(scale, {})[k] = times["lml"] / times["softmax"]
            seconds.setdefault(scale, {})[k] = times["lml"]
            where = f"LML, logits {scale:g} x normal, k = {k}"
            named_figures.record(f"{where}: over softmax", times["lml"] / times["softmax"])
            named_figures.record(f"{where}: plain bisection over it", times["bisection"] / times["lml"])
            named_figures.record(f"{where}: difference of their sum from k, over k", off / k)
            table.add_row(f"{scale:g} x normal", f"{k:,}", *(f"{1e3 * times[name]:.2f}" for name in times),
                          f"{ratios[scale][k]:.2f}", f"{off:.0e}")  # fmt: skip
    console.print(table)
    goals = []
    for scale, own in ratios.items():
        slowest = max(own, key=lambda k, own=own: own[k])
        what = f"LML, logits {scale:g} x normal:"
        goals.append((f"{what} at most {LML_GOAL:g}x softmax", f"{own[slowest]:.2f}x (k = {slowest:,})",
                      own[slowest] <= LML_GOAL))  # fmt: skip
        spread = max(seconds[scale].values()) / min(seconds[scale].values())
        goals.append((f"{what} slowest k at most {SPREAD:g}x the fastest", f"{spread:.2f}x", spread <= SPREAD))
    return goals


SECTIONS = {"dft": compare_routes, "lml": compare_projections}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=SECTIONS)
    parser.add_argument("--run", choices=ROUTES, help=argparse.SUPPRESS)
    parser.add_argument("--labels", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--frequencies", type=int, help=argparse.SUPPRESS)
    named_figures.add_option(parser)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run_route(options.labels, options.frequencies, options.run)))
        return 0
    import torch
    from rich.console import Console
    from rich.table import Table

    torch.set_num_threads(THREADS)
    console = Console(width=140)
    table = Table("goal", "worst case", "holds")
    held = True
    for section in [options.only] if options.only else SECTIONS:
        for goal, worst, holds in SECTIONS[section](console, options.rounds):
            table.add_row(goal, worst, "yes" if holds else "NO")
            held &= holds
    console.print(table)
    named_figures.write(options.json)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
