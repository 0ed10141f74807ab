"""How fast are minibatches from Parquet row groups, next to a loop over a CSR matrix in memory?

    python benchmarks/heads_loading.py [heads_dir] [--rounds 3]

Trains a BSL head (dim 50, width 256) for one pass over the rows, with batches from `xpipe.heads.ParquetBatches` and
with batches sliced from scipy matrices that were read before the clock starts, in the same shuffled order of equally
many rows; both in turns, one PyTorch thread, the best of the rounds counts. Also what a pass costs that only reads.
Data: a generated stand-in of EURLex-4K, emitted for the purpose; with heads_dir also that emitted heads/ dataset.
Goal: rows per second of training from Parquet at most 20 % below those from memory. Exit code 1 if it does not hold.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator

import named_figures
import numpy as np
import torch

from xpipe import config
from xpipe.cli.progress import Progress
from xpipe.engine import execute
from xpipe.formats.parquet import read_split
from xpipe.ground import backend, seeding
from xpipe.heads import Batch, HeadModel, ParquetBatches, SparseEncoder, Targets, make_head

BATCH, WIDTH, DIM = 256, 256, 50
GOAL = 0.8


class MemoryBatches:
    """The plain way: the whole split as two CSR matrices, a permutation, and a slice of rows at a time."""

    def __init__(self, folder: str):
        self.X, self.Y = read_split(folder, "train")

    def __iter__(self) -> Iterator[Batch]:
        order = seeding.permutation(self.X.shape[0], 0, "memory")
        for first in range(0, len(order), BATCH):
            rows = order[first : first + BATCH]
            X, Y = self.X[rows], self.Y[rows]
            yield Batch(
                torch.from_numpy(rows),
                torch.from_numpy(X.indptr.astype(np.int64)),
                torch.from_numpy(X.indices.astype(np.int64)),
                torch.from_numpy(X.data),
                Targets(torch.from_numpy(Y.indptr.astype(np.int64)), torch.from_numpy(Y.indices.astype(np.int64))),
            )


def train_pass(batches, n_features: int, n_labels: int) -> float:
    """Rows a second of one epoch of training."""
    torch.manual_seed(0)
    encoder = SparseEncoder(n_features, WIDTH)
    model = HeadModel(encoder, make_head("bsl", in_dim=encoder.out_dim, n_labels=n_labels, dim=DIM))
    optimiser = torch.optim.AdamW(model.parameters(), fused=True)
    rows, began = 0, time.perf_counter()
    for batch in batches:
        optimiser.zero_grad(set_to_none=True)
        model.head.loss(model(batch), batch.targets).backward()
        optimiser.step()
        rows += batch.n_rows
    return rows / (time.perf_counter() - began)


def read_pass(batches) -> float:
    """Rows a second of a pass that does nothing with them."""
    began = time.perf_counter()
    return sum(batch.n_rows for batch in batches) / (time.perf_counter() - began)


def compare_loading(folder: str, rounds: int) -> bool:
    """Print rows per second of both ways; does the goal hold?"""
    parquet, memory = ParquetBatches(folder, batch_size=BATCH), MemoryBatches(folder)
    speeds: dict[str, list[float]] = {name: [] for name in ("parquet", "memory", "parquet, reading", "memory, reading")}
    for epoch in range(rounds):
        parquet.set_epoch(epoch)
        for name, batches in (("parquet", parquet), ("memory", memory)):
            speeds[name].append(train_pass(batches, parquet.n_features, parquet.n_labels))
            speeds[f"{name}, reading"].append(read_pass(batches))
    best = {name: max(found) for name, found in speeds.items()}
    n_rows = parquet.count_rows()
    print(f"{folder}: {n_rows:,} rows, {parquet.n_features:,} features, {parquet.n_labels:,} labels")
    for name, found in best.items():
        print(f"  {name:18} {found:12,.0f} rows/s")
    share = best["parquet"] / best["memory"]
    met = "yes" if share >= GOAL else "NO"
    named_figures.record(f"{n_rows:,} rows: speed of training from Parquet over that from memory", share)
    print(f"  training from Parquet at {share:.2f} of the speed from memory (goal: {GOAL}): {met}")
    return share >= GOAL


def emit_stand_in(folder: str) -> str:
    """heads/ of a generated stand-in with the shape of EURLex-4K, its labels as they are."""
    path = os.path.join(folder, "pipeline.yaml")
    with open(path, "w") as stream:
        stream.write(
            f"name: stand-in\ndata: {{name: eurlex-4k, dir: {folder}/data, if_missing: synthesize}}\n"
            f"emit: {{datasets: [heads]}}\ncluster: none\nout: {folder}/out\n"
        )
    with Progress(mode="quiet") as progress:
        execute.run(config.load(path), progress, backend.choose("cpu"))
    return os.path.join(folder, "out", "heads")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("heads_dir", nargs="?", help="an emitted heads/ dataset to measure too")
    parser.add_argument("--rounds", type=int, default=3)
    named_figures.add_option(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        good = compare_loading(emit_stand_in(folder), arguments.rounds)
    if arguments.heads_dir:
        good &= compare_loading(arguments.heads_dir, arguments.rounds)
    named_figures.write(arguments.json)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
