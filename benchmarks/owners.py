"""How many of the right owners does each method find? F1 of `impute` against the true labels, on data of your own.

    python benchmarks/owners.py FOLDER [FOLDER ...] [--groups random:4,random:10,kmeans:10,copies:4] [--seed 0]

FOLDER: any that `xpipe run` reads, labels per sample; without one, the generated stand-in of EURLex-4K. Groups are
`random:SIZE`, `kmeans:DEPTH`, `given` (the file train_groups.txt of the folder) and `copies:SIZE` (each row so many
times, every copy without a random fifth of its words: groups whose members really share all their labels). Rows have
length 1, as in a pipeline.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

METHODS = ("baseline", "eagle0", "eagle", "centred", "discriminative", "auto")
GROUPS = "random:4,random:10"
LOST = 0.2  # share of its words that a copy goes without


def read_training(folder: str) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    from xpipe.formats import read_dataset

    train = read_dataset(folder).train
    if train is None or train.Y is None:
        raise SystemExit(f"{folder}: no training rows with labels of their own")
    return scale_rows(train.X), train.Y


def scale_rows(X: sp.csr_matrix) -> sp.csr_matrix:
    """Rows of length 1; empty rows stay empty."""
    length = np.sqrt(np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64)).ravel()
    return sp.csr_matrix(sp.diags(1 / np.where(length > 0, length, 1)) @ X, dtype=np.float32)


def make_stand_in(folder: str) -> str:
    from xpipe.synth import synthesize

    synthesize("eurlex-4k", folder, seed=0)
    return folder


def copy_rows(X: sp.csr_matrix, Y: sp.csr_matrix, times: int, seed: int) -> tuple[sp.csr_matrix, ...]:
    """(X, Y, Y1, Y2): every row `times` times, each copy without a random share of its words."""
    copies = sp.csr_matrix(X[np.repeat(np.arange(X.shape[0]), times)])
    copies.data[np.random.default_rng(seed).random(copies.nnz) < LOST] = 0
    copies.eliminate_zeros()
    n = copies.shape[0]
    membership = sp.csr_matrix(
        (np.ones(n, dtype=np.float32), np.arange(n) // times, np.arange(n + 1)), shape=(n, X.shape[0])
    )
    return scale_rows(copies), sp.csr_matrix(Y[np.repeat(np.arange(X.shape[0]), times)]), membership, Y


def make_groups(X: sp.csr_matrix, Y: sp.csr_matrix, groups: str, folder: str, seed: int) -> tuple[sp.csr_matrix, ...]:
    """(X, Y, Y1, Y2) of one grouping."""
    from xpipe import grouping
    from xpipe.formats import read_membership

    rule, _, number = groups.partition(":")
    if rule == "random":
        return X, Y, *grouping.random_groups(Y, int(number), seed)
    if rule == "kmeans":
        return X, Y, *grouping.kmeans_groups(X, Y, int(number), seed)
    if rule == "given":
        membership = read_membership(str(Path(folder) / "train_groups.txt"), n_rows=X.shape[0])
        return X, Y, *grouping.given_groups(membership, Y)
    if rule == "copies":
        return copy_rows(X, Y, int(number), seed)
    raise SystemExit(f"--groups {groups}: random:SIZE, kmeans:DEPTH, given or copies:SIZE")


def f1(found: sp.csr_matrix, truth: sp.csr_matrix) -> float:
    common = found.astype(bool).multiply(truth.astype(bool)).nnz
    return 2 * common / max(found.nnz + truth.nnz, 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", metavar="FOLDER")
    parser.add_argument("--groups", default=GROUPS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    from rich.console import Console
    from rich.table import Table

    from xpipe.eagle import impute

    table = Table("data", "groups", *METHODS, "auto takes", "seconds, discriminative")
    with tempfile.TemporaryDirectory(prefix="xpipe-owners-") as scratch:
        for folder in options.folders or [make_stand_in(scratch)]:
            rows, labels = read_training(folder)
            for groups in options.groups.split(","):
                X, Y, Y1, Y2 = make_groups(rows, labels, groups, folder, options.seed)
                found, seconds, taken = [], 0.0, ""
                for method in METHODS:
                    start = time.perf_counter()
                    result = impute(X, Y1, Y2, method=method, seed=options.seed)
                    if method == "discriminative":
                        seconds = time.perf_counter() - start
                    if method == "auto":
                        taken = result.trace["method"]
                    found.append(f"{f1(result.labels, Y):.3f}")
                table.add_row(
                    Path(folder).name if options.folders else "SYNTHETIC eurlex-4k", groups, *found, taken,
                    f"{seconds:.1f}",
                )  # fmt: skip
    Console(width=150).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
