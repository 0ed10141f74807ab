"""How fast are certified argmaxability verdicts, next to solving the full LP of every label set, and do they agree?

    python benchmarks/argmaxability.py [--dimensions 25 50 100 200] [--sets 64] [--end-to-end 10000]
    python benchmarks/argmaxability.py --mode topk --dimensions 50 100 200 --end-to-end 0
    python benchmarks/argmaxability.py --agree 2000 [--mode topk]

At n = 8,921 labels: seconds per set in 1 and 2 processes against scipy's linprog (HiGHS) and OR-tools GLOP on the full
Chebyshev LP, for trained-like weights (label sets are the top labels of random inputs: argmaxable) and Gaussian ones
(random sets: unargmaxable). Then 10,000 sets at d = 100 through `xpipe verify` on 2 threads. --sets 0 and
--end-to-end 0 leave a part out. --agree: only compares verdicts and exact radii with the full LP over a grid of sizes,
on so many sets (2,000 take half an hour). --mode topk or argmax: the same questions about sets on top, for which the LP
has a threshold as one more variable; --agree then also compares inputs that are not negative. Exit code 1 if a goal
does not hold. DFT heads and label order: `dft.py`; sizes of indexes and language models: `proofs.py`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import named_figures
import numpy as np
import scipy.sparse as sp

N_LABELS = 8_921
DIMENSIONS = (25, 50, 100, 200)
SETS = 64  # two units of argmaxability: one for each of two processes
PEER_SETS = 3
BOX, EPS = 1e4, 1e-8
GOALS = {("argmaxable", "bounds"): 100, ("unargmaxable", "bounds"): 30, ("argmaxable", "exact"): 10}
GOALS["unargmaxable", "exact"] = 10
END_TO_END = 10_000
END_TO_END_DIMENSION = 100
ORDER_SIZES = [(n, d) for n in (200, 1_000, 5_000) for d in (5, 20, 50, 100)]
AGREE_SIZES = [(n, d) for n in (500, 3_993, 8_921) for d in (10, 25, 50, 100, 200)]


def seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def trained_like(n: int, d: int, n_sets: int, seed: int = 0) -> tuple[np.ndarray, sp.csr_matrix]:
    """Weights whose first input acts as a negative bias, and sets of the highest scoring labels of random inputs."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((n, d)) / np.sqrt(d)
    W[:, 0] = -1 - 0.2 * np.abs(rng.standard_normal(n))
    W *= np.exp(0.3 * rng.standard_normal(n))[:, None]
    sets = []
    for _ in range(n_sets):
        x = rng.standard_normal(d)
        x[0] = 1
        sets.append(np.argpartition(-(W @ x), size := 1 + rng.poisson(11))[:size])
    return W, as_rows(sets, n)


def gaussian(n: int, d: int, n_sets: int, seed: int = 0) -> tuple[np.ndarray, sp.csr_matrix]:
    """Gaussian weights and random sets of about twelve labels."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((n, d))
    return W, as_rows([rng.choice(n, 1 + rng.poisson(11), replace=False) for _ in range(n_sets)], n)


def as_rows(sets: list[np.ndarray], n: int) -> sp.csr_matrix:
    indptr = np.concatenate([[0], np.cumsum([len(labels) for labels in sets])])
    indices = np.concatenate([np.sort(labels) for labels in sets])
    return sp.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), shape=(len(sets), n))


def top_sets(n: int, d: int, n_sets: int, seed: int = 0) -> tuple[np.ndarray, sp.csr_matrix]:
    """Gaussian weights of different lengths, and sets of the highest scoring labels of random inputs."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((n, d)) / np.sqrt(d) * np.exp(0.3 * rng.standard_normal(n))[:, None]
    return W, as_rows([np.argsort(-(W @ rng.standard_normal(d)))[: 1 + rng.poisson(11)] for _ in range(n_sets)], n)


def wide_sets(n: int, d: int, n_sets: int, seed: int = 0) -> tuple[np.ndarray, sp.csr_matrix]:
    """Gaussian weights and random sets of about d labels: more than d inputs can put on top."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((n, d))
    return W, as_rows([rng.choice(n, min(n - 1, 1 + rng.poisson(d)), replace=False) for _ in range(n_sets)], n)


def inner_rows(n: int, d: int, n_sets: int, seed: int = 0) -> tuple[np.ndarray, sp.csr_matrix]:
    """Gaussian weights of which some are shrunk, and single labels: half of them shrunk, so maybe inside the hull."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((n, d))
    chosen = rng.choice(n, n_sets, replace=n_sets > n)
    W[chosen[::2]] *= 0.1 + 0.2 * rng.random((len(chosen[::2]), 1))
    return W, as_rows([np.array([label]) for label in chosen], n)


KINDS = {"sign": (trained_like, gaussian), "topk": (top_sets, wide_sets), "argmax": (inner_rows, inner_rows)}


def full_lp(W: np.ndarray, labels: np.ndarray, mode: str = "sign") -> tuple[np.ndarray, np.ndarray]:
    """(constraint matrix for (x, threshold, radius), bounds of x and the threshold): all rows of the LP of a radius."""
    signs = np.full(len(W), -1.0)
    signs[labels] = 1.0
    norms, box = np.linalg.norm(W, axis=1), np.full(W.shape[1], BOX)
    if mode == "sign":
        return np.hstack([-signs[:, None] * W, norms[:, None]]), box
    size = np.full((len(W), 1), norms.max())
    return np.hstack([-signs[:, None] * W, signs[:, None], size]), np.append(box, np.inf)


def solve_with_scipy(W: np.ndarray, labels: np.ndarray, mode: str = "sign", nonnegative: bool = False) -> float:
    """The radius; NaN where the solver fails."""
    from scipy.optimize import linprog

    A, box = full_lp(W, labels, mode)
    goal = np.zeros(A.shape[1])
    goal[-1] = -1
    limits = [*((0 if nonnegative and np.isfinite(side) else -side, side) for side in box), (None, None)]
    answer = linprog(goal, A_ub=A, b_ub=np.zeros(len(A)), bounds=limits, method="highs")
    return -answer.fun if answer.status == 0 else np.nan


def solve_with_glop(W: np.ndarray, labels: np.ndarray, mode: str = "sign") -> float:
    """Seconds of solving alone: handing over the rows is not counted against it."""
    from ortools.linear_solver.python import model_builder_helper as builder

    A, box = full_lp(W, labels, mode)
    goal = np.zeros(A.shape[1])
    goal[-1] = 1
    model = builder.ModelBuilderHelper()
    low, high = np.append(-box, -np.inf), np.append(box, np.inf)
    nothing = np.full(len(A), -np.inf)
    model.fill_model_from_sparse_data(low, high, goal, nothing, np.zeros(len(A)), sp.csr_matrix(A))
    model.set_maximize(True)
    solver = builder.ModelSolverHelper("GLOP")
    return seconds(lambda: solver.solve(model))


_weights: np.ndarray


def start_process(path: str, ready: Any) -> None:
    """A process that has loaded the weights and compiled code, and waits for the others."""
    from xpipe.argmaxability import verify

    global _weights  # noqa: PLW0603
    _weights = np.load(path)
    for mode in ("sign", "topk"):
        verify(*gaussian(50, 4, 8), radius="exact", mode=mode, threads=1)
        verify(*trained_like(50, 4, 8), radius="exact", mode=mode, threads=1)
    ready.wait()


def verify_in_process(part: sp.csr_matrix, radius: str, mode: str) -> Any:
    from xpipe.argmaxability import verify

    return verify(_weights, part, radius=radius, mode=mode, threads=1)


def verify_in_two_processes(W: np.ndarray, Y: sp.csr_matrix, question: str) -> dict[str, tuple[float, Any]]:
    """{mode: (seconds, verdicts)} with two processes that are up already: units of sets are dealt out to them."""
    from xpipe.argmaxability import SETS_PER_BLOCK, Verdicts

    parts = [Y[start : start + SETS_PER_BLOCK] for start in range(0, Y.shape[0], SETS_PER_BLOCK)]
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(3)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "W.npy")
        np.save(path, W)
        with context.Pool(2, start_process, (path, ready)) as pool:
            ready.wait()
            for mode in ("bounds", "exact"):
                start = time.perf_counter()
                verdicts = pool.starmap(verify_in_process, [(part, mode, question) for part in parts], chunksize=1)
                found[mode] = time.perf_counter() - start, Verdicts.concatenate(verdicts)
    return found


def compare_speed(console, n_labels: int, dimensions: list[int], n_sets: int, question: str = "sign") -> bool:
    """Whether the goals hold: every kind of weights, d and mode; one process is what counts, two are shown."""
    from rich.table import Table

    from xpipe.argmaxability import check, verify

    try:
        import ortools  # noqa: F401

        has_glop = True
    except ImportError:
        has_glop = False
        console.print("no OR-tools here: pip install 'xpipe[bench]' to compare with GLOP")
    for mode in ("sign", "topk"):
        verify(*gaussian(50, 4, 8), radius="exact", mode=mode)  # compiles
        verify(*trained_like(50, 4, 8), radius="exact", mode=mode)
    table = Table(
        "sets", "d", "mode", "scipy", "GLOP", "1 process", "2 processes", "faster than scipy", "goal", "holds"
    )
    held = True
    for kind, wanted in zip(KINDS[question], ("argmaxable", "unargmaxable"), strict=True):
        for d in dimensions:
            W, Y = kind(n_labels, d, n_sets)
            chosen = Y[np.flatnonzero(verify(W, Y, mode=question).status == wanted)]
            if not chosen.shape[0]:
                raise SystemExit(f"no {wanted} set at d={d}")
            some = [
                chosen.indices[chosen.indptr[i] : chosen.indptr[i + 1]] for i in range(min(PEER_SETS, chosen.shape[0]))
            ]
            plain = min(seconds(lambda labels=labels: solve_with_scipy(W, labels, question)) for labels in some)  # noqa: B023
            glop = min(solve_with_glop(W, labels, question) for labels in some) if has_glop else np.nan
            in_two = verify_in_two_processes(W, chosen, question)
            for mode in ("bounds", "exact"):
                start = time.perf_counter()
                alone = verify(W, chosen, radius=mode, mode=question, threads=1)
                one = (time.perf_counter() - start) / chosen.shape[0]
                two = in_two[mode][0] / chosen.shape[0]
                answers = (alone, in_two[mode][1])
                certain = all(check(W, chosen, answer).all() and (answer.status == wanted).all() for answer in answers)
                goal = GOALS[wanted, mode]
                good = plain / one >= goal and certain
                held &= good
                where = f"{wanted} sets, d = {d}, {mode}"
                named_figures.record(f"{where}: faster than scipy", plain / one)
                if has_glop:
                    named_figures.record(f"{where}: faster than GLOP", glop / one)
                table.add_row(
                    f"{chosen.shape[0]} {wanted}", str(d), mode, f"{plain:.2f} s",
                    f"{glop:.2f} s" if has_glop else "-", f"{1e3 * one:.2f} ms", f"{1e3 * two:.2f} ms",
                    f"{plain / one:,.0f}x", f"{goal}x", "yes" if good else "NO",
                )  # fmt: skip
    console.print(table)
    console.print(
        f"n = {n_labels:,}; seconds per set; the peers' best of {PEER_SETS} sets, on one thread; every verdict's "
        "certificate was checked"
    )
    return held


def run_end_to_end(console, n_labels: int, n_sets: int) -> None:
    d = END_TO_END_DIMENSION
    W, Y = trained_like(n_labels, d, n_sets)
    with tempfile.TemporaryDirectory() as folder:
        weights, sets, out = (os.path.join(folder, name) for name in ("W.npy", "Y.npz", "verdicts.parquet"))
        np.save(weights, W.astype(np.float32))
        sp.save_npz(sets, Y)
        command = [sys.executable, "-m", "xpipe", "-q", "verify", "--weights", weights, "--labels", sets, "--out", out]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken = seconds(lambda: subprocess.run([*command, "--threads", "2"], check=False))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    console.print(
        f"{n_sets:,} sets at n={n_labels:,}, d={d} with `xpipe verify` on 2 threads: {taken / 60:.2f} minutes, "
        f"{spent:.0f} seconds of processor time"
    )


def compare_answers(console, n_sets: int, question: str = "sign") -> bool:
    """Whether verdicts and exact radii agree with the full LP, over all sizes and both kinds of weights."""
    from xpipe.argmaxability import check
    from xpipe.argmaxability import verify as ask

    def verify(W: np.ndarray, Y: sp.csr_matrix, radius: str = "bounds") -> Any:
        return ask(W, Y, radius=radius, mode=question, inputs="nonnegative" if nonnegative else "any")

    sizes = AGREE_SIZES if question == "sign" else ORDER_SIZES
    nonnegative = False
    cost = np.array([n * d for n, d in sizes]) ** -0.5  # fewer sets where the full LP takes long
    counts = np.ceil(n_sets * cost / cost.sum()).astype(int)
    total = different = undecided = broken = failed = 0
    furthest = 0.0
    for (n, d), each in zip(sizes, counts.tolist(), strict=True):
        half = each // 2
        for kind, count in zip(KINDS[question], (each - half, half), strict=True):
            nonnegative = question != "sign" and kind is KINDS[question][1] and not nonnegative
            W, Y = kind(n, d, count, seed=n + d)
            bounds, exact = verify(W, Y), verify(W, Y, radius="exact")
            broken += int((~check(W, Y, bounds)).sum() + (~check(W, Y, exact)).sum())
            for answer in (bounds, exact):
                open_ones = (answer.status == "undecided") | (answer.one_argmaxable == "undecided")
                undecided += int(open_ones.sum())
            for row in range(count):
                radius = solve_with_scipy(W, Y.indices[Y.indptr[row] : Y.indptr[row + 1]], question, nonnegative)
                if np.isnan(radius):
                    failed += 1
                    continue
                for answer in (bounds, exact):
                    truth = "argmaxable" if radius > EPS else "unargmaxable"
                    different += bool(answer.status[row] not in (truth, "undecided"))
                    one = "yes" if radius >= 1 else "no"
                    different += bool(answer.one_argmaxable[row] not in (one, "undecided"))
                if radius > EPS:
                    off = max(abs(exact.radius_lower[row] - radius), abs(exact.radius_upper[row] - radius)) / radius
                    furthest = max(furthest, off)
            total += count
        console.print(
            f"n={n:,} d={d}: {total:,} sets so far in both modes, {different} differ, {undecided} undecided, "
            f"{broken} certificates fail, exact radii within {furthest:.1e}; the full LP failed on {failed}"
        )
    named_figures.record("sets compared", total)
    named_figures.record("verdicts that differ", different)
    named_figures.record("undecided", undecided)
    named_figures.record("certificates that fail", broken)
    named_figures.record("exact radii: relative difference", furthest)
    return different == 0 and broken == 0 and undecided <= 2 * total / 1000 and furthest <= 1e-6


def main() -> int:
    from rich.console import Console

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=N_LABELS)
    parser.add_argument("--dimensions", type=int, nargs="+", default=list(DIMENSIONS))
    parser.add_argument("--sets", type=int, default=SETS, help="sets of each kind and dimension; 0: no table of speed")
    parser.add_argument("--end-to-end", type=int, default=END_TO_END, metavar="SETS", help="0: leave it out")
    parser.add_argument("--agree", type=int, default=0, metavar="SETS", help="compare with the full LP instead")
    parser.add_argument("--mode", choices=("sign", "topk", "argmax"), default="sign")
    named_figures.add_option(parser)
    options = parser.parse_args()
    console = Console(width=140)
    if options.agree:
        held = compare_answers(console, options.agree, options.mode)
        named_figures.write(options.json)
        return 0 if held else 1
    held = not options.sets or compare_speed(console, options.labels, options.dimensions, options.sets, options.mode)
    if options.end_to_end and options.mode == "sign":
        run_end_to_end(console, options.labels, options.end_to_end)
    named_figures.write(options.json)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
