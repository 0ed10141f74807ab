"""Proofs at the size of indexes and language models: seconds, memory, and whether every verdict is right.

    python benchmarks/proofs.py [index] [--rows 50000 --inputs 768 --sets 1000]
    python benchmarks/proofs.py limit [--documents 46]
    python benchmarks/proofs.py tokens [--rows 128000 --inputs 2048]

index: certified verdicts on two-document sets of an index of unit rows, in float32 and mapped from a file; goal: 10
minutes on 2 cores, 2 GiB beyond the file. limit: every pair of 46 documents as the top 2 (the design of LIMIT), the
share of impossible pairs over the number of dimensions, float32 and float16, for random unit rows and for the rows of
`dft_matrix`. tokens: every token of a matrix of clustered rows, of which 1.5 % are mixtures of other rows by
construction: exactly, in dyadic numbers, so the truth is known; goal: all right, in an hour. Exit code 1 if a goal does
not hold.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import resource
import sys
import tempfile
import time

import named_figures
import numpy as np
import scipy.sparse as sp

GRID = 2.0**13  # numbers of the clustered rows are whole multiples of 1 / GRID
MIXED = 64  # shares of a mixture are whole multiples of 1 / MIXED: a mixture is a float32 exactly


def unit_rows(n: int, d: int, seed: int = 0, dtype: type = np.float32) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d)).astype(np.float32)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(dtype)


def save_unit_rows(path: str, n: int, d: int) -> None:
    np.save(path, unit_rows(n, d))


def sets_of(pairs: np.ndarray, n: int) -> sp.csr_matrix:
    count, k = pairs.shape
    return sp.csr_matrix((np.ones(pairs.size, np.float32), pairs.ravel(), np.arange(count + 1) * k), shape=(count, n))


def clustered(path: str, n: int, d: int, per: int = 64, share: float = 0.015, seed: int = 0) -> np.ndarray:
    """Write rows to an .npy file. Returns whether each is argmaxable.

    Rows of a cluster are unit vectors around its centre, rounded to multiples of 1 / GRID: each of them wins for itself
    as input, since no other row is nearly as long in its direction. Mixtures of 2 to 32 rows of a cluster never win.
    """
    rng = np.random.default_rng(seed)
    n_hull = n - int(np.ceil(n * share))
    order = rng.permutation(n)  # row number of each made row
    W = np.lib.format.open_memmap(path, "w+", np.float32, (n, d))
    made = np.arange(0, n_hull, per)
    home = rng.integers(0, n_hull // per, n - n_hull)  # the cluster of each mixture
    for cluster, first in enumerate(made.tolist()):
        rows = rng.standard_normal(d) + rng.standard_normal((min(per, n_hull - first), d))
        rows = np.round(rows / np.linalg.norm(rows, axis=1, keepdims=True) * GRID) / GRID
        W[order[first : first + len(rows)]] = rows
        for row in order[n_hull:][home == cluster]:
            count = int(rng.integers(2, 33))
            cuts = np.sort(rng.choice(np.arange(1, MIXED), count - 1, replace=False))
            shares = np.diff(np.concatenate([[0], cuts, [MIXED]])) / MIXED
            mixture = shares @ rows[rng.choice(len(rows), count, replace=False)]
            W[row] = mixture
            assert (W[row] == mixture).all()
    W.flush()
    truth = np.ones(n, dtype=bool)
    truth[order[n_hull:]] = False
    return truth


def peak() -> float:
    """GiB of this process, maps of files included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def run_index(console, n: int, d: int, n_sets: int, threads: int) -> bool:
    from xpipe.argmaxability import check, open_rows, unit_margins, verify

    rng = np.random.default_rng(1)
    Y = sets_of(np.sort([rng.choice(n, 2, replace=False) for _ in range(n_sets)]), n)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "docs.npy")
        maker = multiprocessing.get_context("spawn").Process(target=save_unit_rows, args=(path, n, d))
        maker.start()  # so that making the rows does not count as memory of verifying them
        maker.join()
        verify(unit_rows(40, 3), mode="argmax")  # compiles
        before = peak()
        start = time.perf_counter()
        W = open_rows(path)
        verdicts = verify(W, Y, mode="topk", threads=threads)
        taken = time.perf_counter() - start
        beyond = peak() - before - os.path.getsize(path) / 2**30
        start = time.perf_counter()
        proved = bool(check(W, Y, verdicts).all())
        checked = time.perf_counter() - start
        margins = unit_margins(W, Y, verdicts)[0]
    good = taken < 600 and beyond <= 2 and proved
    named_figures.record("index: sets that are possible", int(verdicts.argmaxable.sum()))
    named_figures.record("index: proved again by check", proved)
    named_figures.record("index: smallest margin at inputs of length 1", margins.min())
    named_figures.record("index: GiB beyond the file", beyond)
    console.print(
        f"{n_sets:,} sets of 2 documents, {n:,} x {d} float32: {taken:.1f} s on {threads} threads, {beyond:.2f} GiB "
        f"beyond the file; {dict(zip(*np.unique(verdicts.status, return_counts=True), strict=True))}; all proved again "
        f"by check: {proved} ({checked:.1f} s); margin at |x| = 1 at least {margins.min():.3f}; goals hold: {good}"
    )
    return good


def run_limit(console, n: int) -> bool:
    from rich.table import Table

    from xpipe.argmaxability import check, dft_matrix, verify

    Y = sets_of(np.array(list(itertools.combinations(range(n), 2))), n)
    table = Table("dimensions", "float32", "float16", "dft rows, float32", title=f"impossible pairs of {n} documents")
    held = True
    for d in range(2, 25):
        cells = []
        for dtype in (np.float32, np.float16):
            W = unit_rows(n, d, seed=d, dtype=dtype)
            verdicts = verify(W, Y, mode="topk")
            held &= bool(check(W, Y, verdicts).all()) and not (verdicts.status == "undecided").any()
            share = 100 * (verdicts.status == "unargmaxable").mean()
            named_figures.record(f"random unit rows, {dtype.__name__}, {d} dimensions: impossible pairs, %", share)
            cells.append(f"{(verdicts.status == 'unargmaxable').mean():.1%}")
        if d % 2:
            W = dft_matrix(n, d // 2).astype(np.float32)
            verdicts = verify(W, Y, mode="topk")
            held &= bool(check(W, Y, verdicts).all())
            share = 100 * (verdicts.status == "unargmaxable").mean()
            named_figures.record(f"rows of dft_matrix, {d} dimensions: impossible pairs, %", share)
            cells.append(f"{(verdicts.status == 'unargmaxable').mean():.1%}")
        else:
            cells.append("")
        table.add_row(str(d), *cells)
    console.print(table)
    named_figures.record("every verdict decided and its certificate checked", held)
    console.print(f"{Y.shape[0]:,} pairs; every verdict decided and its certificate checked: {held}")
    return held


def run_tokens(console, n: int, d: int, threads: int, folder: str | None) -> bool:
    from xpipe.argmaxability import distinct_sets, open_rows, prepare_rows, verify
    from xpipe.argmaxability.modes import Question, sets_asked
    from xpipe.argmaxability.verdict_parts import verify_in_parts

    verify(unit_rows(40, 3), mode="argmax")  # compiles
    with tempfile.TemporaryDirectory() as own:
        folder = folder or own
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "lm.npy")
        truth = clustered(path, n, d)
        start, busy = time.perf_counter(), time.process_time()
        layer = prepare_rows(open_rows(path), every_label=True)
        sets, _ = distinct_sets(sets_asked(None, n, "argmax"), n)
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            if done % 8192 < count:
                console.print(f"{done:,} tokens, {time.perf_counter() - start:.0f} s, {peak():.2f} GiB")

        made = verify_in_parts(
            layer,
            sets,
            os.path.join(folder, "parts"),
            Question("argmax"),
            "bounds",
            1e-8,
            1e4,
            threads,
            advance,
            advance,
        )
        taken, busy = time.perf_counter() - start, time.process_time() - busy
    right = int((made.bare.argmaxable == truth).sum())
    undecided = int((made.bare.status == "undecided").sum())
    good = right == n and not undecided and taken < 3600
    named_figures.record("tokens: verdicts that are right", right)
    named_figures.record("tokens: undecided", undecided)
    named_figures.record("tokens: unargmaxable", int((~truth).sum()))
    named_figures.record("tokens: GiB with the mapped file", peak())
    console.print(
        f"{n:,} tokens x {d} inputs: {right:,} verdicts right, {undecided} undecided, {int((~truth).sum()):,} are "
        f"unargmaxable; {taken / 60:.1f} minutes on {threads} threads ({busy / 60:.1f} of CPU), {peak():.2f} GiB with "
        f"the mapped file; goals hold: {good}"
    )
    return good


def main() -> int:
    from rich.console import Console

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("index", "limit", "tokens"), default="index")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--inputs", type=int)
    parser.add_argument("--sets", type=int, default=1000)
    parser.add_argument("--documents", type=int, default=46)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", help="tokens: keep the rows and the parts there, to go on after a kill")
    named_figures.add_option(parser)
    given = parser.parse_args()
    console = Console(width=140)
    if given.what == "index":
        good = run_index(console, given.rows or 50_000, given.inputs or 768, given.sets, given.threads)
    elif given.what == "limit":
        good = run_limit(console, given.documents)
    else:
        good = run_tokens(console, given.rows or 128_000, given.inputs or 2_048, given.threads, given.folder)
    named_figures.write(given.json)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
