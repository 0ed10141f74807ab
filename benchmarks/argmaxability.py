"""How fast are certified argmaxability verdicts, next to solving the full LP of every label set?

    python benchmarks/argmaxability.py [--order train.txt ...] [--agree SETS]

At n = 8,921 labels: seconds a set against scipy's linprog (HiGHS) and OR-tools GLOP on the full Chebyshev LP, for
trained-like weights (label sets are the top labels of random inputs: argmaxable) and Gaussian ones (random sets:
unargmaxable). Then 10,000 sets through `xpipe verify`, and the radii of DFT heads with and without slack. --order: sign
changes of training label sets (XMC text, with test.txt beside it where there is one) before and after `order_labels`.
--agree: only compares verdicts and exact radii with the full LP, on so many sets (2,000 take half an hour).
Exit code 1 if a goal does not hold.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

N_LABELS = 8_921
DIMENSIONS = (25, 50, 100, 200)
SETS = 64
PEER_SETS = 3
BOX, EPS = 1e4, 1e-8
GOALS = {("argmaxable", "bounds"): 100, ("unargmaxable", "bounds"): 30, ("argmaxable", "exact"): 10}
GOALS["unargmaxable", "exact"] = 10
END_TO_END = (10_000, 100)  # sets, d
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


def full_lp(W: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(constraint matrix for (x, radius), bounds of x): all rows of the Chebyshev LP."""
    signs = np.full(len(W), -1.0)
    signs[labels] = 1.0
    return np.hstack([-signs[:, None] * W, np.linalg.norm(W, axis=1)[:, None]]), np.full(W.shape[1], BOX)


def solve_with_scipy(W: np.ndarray, labels: np.ndarray) -> float:
    """The radius; NaN where the solver fails."""
    from scipy.optimize import linprog

    A, box = full_lp(W, labels)
    goal = np.zeros(A.shape[1])
    goal[-1] = -1
    limits = [*((-side, side) for side in box), (None, None)]
    answer = linprog(goal, A_ub=A, b_ub=np.zeros(len(A)), bounds=limits, method="highs")
    return -answer.fun if answer.status == 0 else np.nan


def solve_with_glop(W: np.ndarray, labels: np.ndarray) -> float:
    """Seconds of solving alone: handing over the rows is not counted against it."""
    from ortools.linear_solver.python import model_builder_helper as builder

    A, box = full_lp(W, labels)
    goal = np.zeros(A.shape[1])
    goal[-1] = 1
    model = builder.ModelBuilderHelper()
    low, high = np.append(-box, -np.inf), np.append(box, np.inf)
    nothing = np.full(len(A), -np.inf)
    model.fill_model_from_sparse_data(low, high, goal, nothing, np.zeros(len(A)), sp.csr_matrix(A))
    model.set_maximize(True)
    solver = builder.ModelSolverHelper("GLOP")
    return seconds(lambda: solver.solve(model))


def compare_speed(console) -> bool:
    """Whether the goals hold: every kind of weights, d and mode, with 1 and 2 threads."""
    from rich.table import Table

    from xpipe.argmaxability import check, verify

    try:
        import ortools  # noqa: F401

        has_glop = True
    except ImportError:
        has_glop = False
        console.print("no OR-tools here: pip install 'xpipe[bench]' to compare with GLOP")
    verify(*gaussian(50, 4, 8), radius="exact")  # compiles
    verify(*trained_like(50, 4, 8), radius="exact")
    table = Table("sets", "d", "mode", "scipy", "GLOP", "xpipe", "2 threads", "faster than scipy", "goal", "holds")
    held = True
    for kind, wanted in ((trained_like, "argmaxable"), (gaussian, "unargmaxable")):
        for d in DIMENSIONS:
            W, Y = kind(N_LABELS, d, SETS)
            chosen = Y[np.flatnonzero(verify(W, Y).status == wanted)]
            some = [chosen.indices[chosen.indptr[i] : chosen.indptr[i + 1]] for i in range(PEER_SETS)]
            plain = min(seconds(lambda labels=labels: solve_with_scipy(W, labels)) for labels in some)  # noqa: B023
            glop = min(solve_with_glop(W, labels) for labels in some) if has_glop else np.nan
            for mode in ("bounds", "exact"):
                answers = []
                one, two = (
                    seconds(lambda t=t: answers.append(verify(W, chosen, radius=mode, threads=t))) / chosen.shape[0]  # noqa: B023
                    for t in (1, 2)
                )
                certain = all(check(W, chosen, answer).all() and (answer.status == wanted).all() for answer in answers)
                goal = GOALS[wanted, mode]
                good = plain / one >= goal and certain
                held &= good
                table.add_row(
                    f"{chosen.shape[0]} {wanted}", str(d), mode, f"{plain:.2f} s",
                    f"{glop:.2f} s" if has_glop else "-", f"{1e3 * one:.2f} ms", f"{1e3 * two:.2f} ms",
                    f"{plain / one:,.0f}x", f"{goal}x", "yes" if good else "NO",
                )  # fmt: skip
    console.print(table)
    console.print(f"seconds a set; the peers' best of {PEER_SETS} sets; every verdict's certificate was checked")
    return held


def run_end_to_end(console) -> None:
    n_sets, d = END_TO_END
    W, Y = trained_like(N_LABELS, d, n_sets)
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
        f"{n_sets:,} sets at n={N_LABELS:,}, d={d} with `xpipe verify` on 2 threads: {taken / 60:.2f} minutes, "
        f"{spent:.0f} seconds of processor time"
    )


def show_dft(console) -> None:
    """Radii of sets of k labels: they shrink with n, and slack columns bring them back."""
    from rich.table import Table

    from xpipe.argmaxability import dft_certificate, dft_matrix, verify

    table = Table("n", "k", "slack", "argmaxable", "smallest radius", "median radius", "median log10 of certificate")
    for k in (1, 3, 5):
        for n in (20, 50, 100, 200):
            rng = np.random.default_rng(n + k)
            sets = [rng.choice(n, k, replace=False) for _ in range(100)]
            for slack in (0, 16):
                W = np.hstack([dft_matrix(n, k), rng.standard_normal((n, slack)) / np.sqrt(n)])
                found = verify(W, as_rows(sets, n), radius="exact")
                proof = "" if slack else f"{np.median([dft_certificate(s, n, k).log10_radius for s in sets]):.1f}"
                radii = found.radius_lower
                table.add_row(
                    str(n), str(k), str(slack), f"{found.argmaxable.mean():.0%}", f"{radii.min():.3g}",
                    f"{np.median(radii):.3g}", proof,
                )  # fmt: skip
    console.print(table)


def show_order(console, paths: list[str]) -> None:
    from rich.table import Table

    from xpipe.argmaxability import dft_argmaxable, dft_certificate, order_labels, sign_changes
    from xpipe.formats import read_xmc

    table = Table(
        "training sets", "order", "mean", "largest", "smallest k", "test sets at that k", "log10 radius", "seconds"
    )
    for path in paths:
        _, Y = read_xmc(path)
        beside = os.path.join(os.path.dirname(path), "test.txt")
        test = read_xmc(beside)[1] if os.path.exists(beside) else None
        orders: dict[str, tuple[np.ndarray, float]] = {"as in the file": (np.arange(Y.shape[1]), 0.0)}
        for name, give in (("order_labels", 0.0), ("give=0.01", 0.01)):
            start = time.perf_counter()
            order = order_labels(Y, give=give)
            orders[name] = order, time.perf_counter() - start
        least_k = min(-(-int(sign_changes(Y[:, order]).max()) // 2) for order, _ in orders.values())
        for name, (order, taken) in orders.items():
            ordered = sp.csr_matrix(Y[:, order])
            changes = sign_changes(ordered)
            k = -(-int(changes.max()) // 2)
            rows = np.random.default_rng(0).choice(ordered.shape[0], 200, replace=False)
            radii = [
                found.log10_radius if (found := dft_certificate(ordered[row].indices, Y.shape[1], k)) else -np.inf
                for row in rows
            ]
            covered = "" if test is None else f"{dft_argmaxable(test[:, order], least_k).mean():.2%} at k={least_k}"
            table.add_row(
                os.path.basename(os.path.dirname(path)) or path, name, f"{changes.mean():.2f}", str(changes.max()),
                str(k), covered, f"{np.median(radii):.1f}", f"{taken:.1f}",
            )  # fmt: skip
    console.print(table)


def compare_answers(console, n_sets: int) -> bool:
    """Whether verdicts and exact radii agree with the full LP, over all sizes and both kinds of weights."""
    from xpipe.argmaxability import check, verify

    cost = np.array([n * d for n, d in AGREE_SIZES]) ** -0.5  # fewer sets where the full LP takes long
    counts = np.ceil(n_sets * cost / cost.sum()).astype(int)
    total = different = undecided = broken = 0
    furthest = 0.0
    for (n, d), each in zip(AGREE_SIZES, counts.tolist(), strict=True):
        half = each // 2
        for kind, count in ((trained_like, each - half), (gaussian, half)):
            W, Y = kind(n, d, count, seed=n + d)
            bounds, exact = verify(W, Y), verify(W, Y, radius="exact")
            broken += int((~check(W, Y, bounds)).sum() + (~check(W, Y, exact)).sum())
            undecided += int((bounds.status == "undecided").sum())
            for row in range(count):
                radius = solve_with_scipy(W, Y.indices[Y.indptr[row] : Y.indptr[row + 1]])
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
            f"n={n:,} d={d}: {total:,} sets so far, {different} differ, {undecided} undecided, {broken} certificates "
            f"fail, exact radii within {furthest:.1e}"
        )
    return different == 0 and broken == 0 and undecided <= total / 1000 and furthest <= 1e-6


def main() -> int:
    from rich.console import Console

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--order", nargs="*", default=[], help="XMC text with training label sets")
    parser.add_argument("--agree", type=int, default=0, metavar="SETS", help="compare with the full LP instead")
    options = parser.parse_args()
    console = Console(width=140)
    if options.agree:
        return 0 if compare_answers(console, options.agree) else 1
    held = compare_speed(console)
    run_end_to_end(console)
    show_dft(console)
    if options.order:
        show_order(console, options.order)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
