"""Minibatches from the Parquet row groups of an emitted dataset, for `torch.utils.data.DataLoader` or a plain loop.

Holds no model, and never more than two windows of row groups in memory.

An epoch goes over the row groups in an order drawn from (seed, epoch), some of them at a time: a window. The rows of a
window are shuffled together and cut into batches of equal size (one row more or less), at most `batch_size`. So the
batches of an epoch depend on data, options and (seed, epoch) alone. DataLoader workers take windows in turn: each
window is read by one of them, and the batches are the same ones for any number of workers, only their order differs,
since a DataLoader takes one batch from each worker in turn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch.utils.data import IterableDataset, get_worker_info

from xpipe.errors import ConfigError, DataError
from xpipe.formats.parquet import read_about, read_row_groups, read_samples, row_groups
from xpipe.formats.parts import concatenate, slice_rows
from xpipe.ground import seeding
from xpipe.ground.sparse import Triple, canonical, to_triple
from xpipe.heads.targets import Targets

WINDOW_ROWS = 8192  # rows to shuffle together unless told: some tens of megabytes
WINDOW_BATCHES = 8  # at least, so that a window's batches differ in size by little


class Batch(NamedTuple):
    """Some rows: samples int64 [B], offsets int64 [B + 1], indices int64 [nnz], values float32 [nnz], targets."""

    samples: torch.Tensor
    offsets: torch.Tensor
    indices: torch.Tensor
    values: torch.Tensor
    targets: Targets

    @property
    def n_rows(self) -> int:
        return self.samples.shape[0]

    def to(self, device: Any) -> Batch:
        """The same rows on a device; `self` where they are there already."""
        if self.offsets.device == torch.device(device):
            return self
        samples, offsets, indices, values = (part.to(device, non_blocking=True) for part in self[:4])
        return Batch(samples, offsets, indices, values, self.targets.to(device))


class ParquetBatches(IterableDataset):
    """The rows of an emitted dataset as `Batch`es: `DataLoader(ParquetBatches(folder), batch_size=None)`.

    folder: an emitted heads/ (or tree/) folder or URL; split: one of its splits. shuffle: a new order every epoch (see
    `set_epoch`); without it rows come as they are stored. window: row groups shuffled together, by default so many
    that they hold 8,192 rows and 8 batches. validation: share of the rows held out, by a hash of sample number and
    seed; role says whether to give the others ("train") or those ("validation"). prefetch: read the next window while
    this one is used.
    Raises ConfigError for options out of range, DataError where the dataset is not there or damaged.
    """

    def __init__(
        self,
        folder: str,
        split: str = "train",
        batch_size: int = 256,
        *,
        seed: int = 0,
        shuffle: bool = True,
        window: int | None = None,
        validation: float = 0.0,
        role: Literal["train", "validation"] = "train",
        prefetch: bool = True,
    ):
        super().__init__()
        for name, value in (("batch_size", batch_size), ("window", 1 if window is None else window)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"`{name}` must be a whole number from 1 on, got {value!r}")
        if not 0 <= validation < 1:
            raise ConfigError(f"`validation` must be in 0..1, below 1, got {validation}", fix="0.1 holds out a tenth")
        if role not in ("train", "validation") or (role == "validation" and not validation):
            why = "nothing is held out" if role == "validation" else ""
            raise ConfigError(f"`role` cannot be {role!r}", why=why, fix="role='train', or validation=0.1 with it")
        about = read_about(folder)
        self.folder, self.split, self.batch_size, self.seed = str(folder), split, batch_size, seed
        self.shuffle, self.validation, self.role, self.prefetch = shuffle, validation, role, prefetch
        self.n_features, self.n_labels = int(about["n_features"]), int(about["n_labels"])
        self.groups = row_groups(self.folder, split)
        stored = sum(rows for _, _, rows in self.groups)
        if stored != about["splits"][split]["rows"]:
            raise DataError(
                f"split {split!r} has {stored:,} rows", where=self.folder,
                why=f"dataset.json says {about['splits'][split]['rows']:,}", fix="emit the dataset again",
            )  # fmt: skip
        largest = max([rows for _, _, rows in self.groups], default=1)
        wanted = max(WINDOW_ROWS, WINDOW_BATCHES * batch_size)
        self.window = window or math.ceil(wanted / max(1, largest))
        # shared with worker processes, so that `set_epoch` reaches those that stay alive between epochs
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()

    @property
    def epoch(self) -> int:
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next pass; without a call every pass has the order of epoch 0."""
        self._epoch.fill_(epoch)

    def count_rows(self) -> int:
        """Rows of one epoch; reads the sample numbers where some are held out."""
        if not self.validation:
            return sum(rows for _, _, rows in self.groups)
        return int(self._chosen(read_samples(self.folder, self.split)).sum())

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        epoch, own = self.epoch, slice(worker.id if worker else 0, None, worker.num_workers if worker else 1)
        windows = self._windows(epoch)[own]
        if not self.prefetch:
            for number, groups in windows:
                yield from self._cut(self._read(epoch, number, groups))
            return
        with ThreadPoolExecutor(1, thread_name_prefix="xpipe-batches") as pool:
            coming = [pool.submit(self._read, epoch, *window) for window in windows[:1]]
            for following in [*windows[1:], None]:
                if coming:
                    rows = coming.pop().result()
                    coming = [pool.submit(self._read, epoch, *following)] if following else []
                    yield from self._cut(rows)

    def _windows(self, epoch: int) -> list[tuple[int, list[tuple[str, int, int]]]]:
        """(number, row groups) of every window of an epoch, in order."""
        order = np.arange(len(self.groups))
        if self.shuffle:
            order = seeding.permutation(len(order), self.seed, "row groups", epoch)
        starts = range(0, len(order), self.window)
        return [(at, [self.groups[group] for group in order[at : at + self.window]]) for at in starts]

    def _read(self, epoch: int, number: int, groups: list[tuple[str, int, int]]) -> Batch:
        """The rows of a window in the order of the epoch."""
        by_file: dict[str, list[int]] = {}
        for path, group, _ in groups:
            by_file.setdefault(path, []).append(group)
        found = [read_row_groups(path, sorted(numbers)) for path, numbers in sorted(by_file.items())]
        samples = np.concatenate([piece for piece, _, _ in found])
        features = concatenate([piece for _, piece, _ in found])
        labels = concatenate([piece for _, _, piece in found])
        self._check(features, labels)
        order = np.arange(len(samples))
        if self.shuffle:
            order = seeding.permutation(len(order), self.seed, "rows", epoch, number)
        if self.validation:
            order = order[self._chosen(samples)[order]]
        if self.shuffle or self.validation:
            samples, features, labels = samples[order], take_rows(features, order), take_rows(labels, order)
        return Batch(
            as_tensor(samples, np.int64),
            as_tensor(features.indptr, np.int64),
            as_tensor(features.indices, np.int64),
            as_tensor(features.values, np.float32),
            Targets(as_tensor(labels.indptr, np.int64), as_tensor(labels.indices, np.int64)),
        )

    def _check(self, features: Triple, labels: Triple) -> None:
        """Raise DataError for numbers beyond the dataset's width: others may have written the files."""
        for name, triple, width in (("feature", features, self.n_features), ("label", labels, self.n_labels)):
            if len(triple.indices) and not 0 <= int(triple.indices.min()) <= int(triple.indices.max()) < width:
                raise DataError(
                    f"a {name} number outside 0..{width - 1}", where=f"{self.folder}, split {self.split}",
                    fix="emit the dataset again",
                )  # fmt: skip

    def _chosen(self, samples: np.ndarray) -> np.ndarray:
        """bool [n]: which samples have this role. The same for any order of rows and any epoch."""
        key = int(seeding.bit_generator(self.seed, "validation").random_raw())
        held_out = mix_bits(samples.astype(np.uint64) ^ np.uint64(key)) < np.uint64(int(self.validation * 2**64))
        return held_out if self.role == "validation" else ~held_out

    def _cut(self, rows: Batch) -> Iterator[Batch]:
        """A window's rows as batches of equal size; their arrays are views of the window's."""
        n_batches = math.ceil(rows.n_rows / self.batch_size)
        bounds = np.arange(n_batches + 1) * rows.n_rows // max(1, n_batches)
        places, owned = rows.offsets[bounds].tolist(), rows.targets.offsets[bounds].tolist()
        for number, (first, last) in enumerate(pairwise(bounds.tolist())):
            inside, of_labels = slice(*places[number : number + 2]), slice(*owned[number : number + 2])
            yield Batch(
                rows.samples[first:last],
                rows.offsets[first : last + 1] - inside.start,
                rows.indices[inside],
                rows.values[inside],
                Targets(rows.targets.offsets[first : last + 1] - of_labels.start, rows.targets.labels[of_labels]),
            )


def matrix_batches(X: sp.csr_matrix, batch_size: int = 256) -> Iterator[Batch]:
    """The rows of a CSR matrix in order, without labels: what a model needs to predict. samples: row numbers."""
    rows = to_triple(canonical(X, "features (X)"))
    for start in range(0, rows.n_rows, batch_size):
        part = slice_rows(rows, start, min(start + batch_size, rows.n_rows))
        offsets = as_tensor(part.indptr, np.int64)
        none = Targets(torch.zeros_like(offsets), torch.zeros(0, dtype=torch.int64))
        samples = torch.arange(start, start + part.n_rows)
        yield Batch(samples, offsets, as_tensor(part.indices, np.int64), as_tensor(part.values, np.float32), none)


def take_rows(triple: Triple, order: np.ndarray) -> Triple:
    """Some rows of raw CSR arrays, in another order."""
    lengths = np.diff(triple.indptr)[order]
    indptr = np.zeros(len(order) + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    places = np.repeat(triple.indptr[order] - indptr[:-1], lengths)
    places += np.arange(len(places))
    return Triple(indptr, triple.indices[places], triple.values[places])


def mix_bits(numbers: np.ndarray) -> np.ndarray:
    """A hash of 64-bit numbers whose every bit depends on all bits (the finaliser of splitmix64)."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def as_tensor(array: np.ndarray, dtype: Any) -> torch.Tensor:
    """A tensor over the array's memory, copied only where it is of another type or cannot be written."""
    return torch.from_numpy(array.astype(dtype, copy=not array.flags.writeable))
