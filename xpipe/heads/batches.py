"""Minibatches from the Parquet row groups of an emitted dataset, for `torch.utils.data.DataLoader` or a plain loop.

Holds no model, and never more than two windows of row groups in memory.

An epoch goes over the row groups in an order drawn from (seed, epoch). Some row groups at a time make a window. The
rows of a window are shuffled together and cut into batches of at most `batch_size` rows, whose sizes differ by at most
one. So the batches of an epoch depend on data, options and (seed, epoch) alone. DataLoader workers take windows in
turn; each window is read by one worker. The batches are the same for any number of workers. Only their order differs,
because a DataLoader takes one batch from each worker in turn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from xpipe.errors import ConfigError, DataError
from xpipe.formats.parquet import read_about, read_row_groups, read_samples, row_groups
from xpipe.ground import seeding
from xpipe.ground._splitmix_numba import hash_numbers
from xpipe.ground.sparse import Triple
from xpipe.ground.sparse_rows import concatenate, take_rows
from xpipe.heads.batch import Batch, as_tensor
from xpipe.heads.targets import Targets

WINDOW_ROWS = 8192  # rows to shuffle together by default: some tens of megabytes
WINDOW_BATCHES = 8  # at least per window, so that a window is cut into batches of nearly full size


class ParquetBatches(IterableDataset[Batch]):
    """The rows of an emitted dataset as batches, for a loop or for `DataLoader(..., batch_size=None)`.

    Parameters
    ----------
    folder : str
        An emitted heads/ (or tree/) folder or URL.
    split : str, default "train"
        One of its splits.
    batch_size : int, default 256
        Rows per batch, at most.
    seed : int, default 0
        For the order of rows and the held-out rows.
    shuffle : bool, default True
        A new order every epoch, see `set_epoch`. Without it rows come as they are stored.
    window : int, optional
        Row groups that are shuffled together. By default so many that they hold 8,192 rows and 8 batches.
    validation : float, default 0.0
        Share of the rows that is held out, chosen by a hash of sample number and seed.
    held_out_from : float, default 0.0
        Where that share begins: with the shares 0..0.1 and 0.1..0.3, for example, no row is held out twice.
    role : {"train", "validation"}, default "train"
        Whether to give the rows that are not held out, or the held-out ones.
    prefetch : bool, default True
        Read the next window while the present one is used.
    pinned : bool, default False
        Give batches in pinned memory, from which `Batch.to` copies to a CUDA device without waiting.

    Raises
    ------
    ConfigError
        For an option that is out of range.
    DataError
        If the dataset is missing or damaged.

    Examples
    --------
    A small dataset, as stage emit writes them, and its batches:

    >>> import json, os, tempfile
    >>> import numpy as np, scipy.sparse as sp
    >>> from xpipe.formats.parquet import write_dataset_part
    >>> from xpipe.ground.sparse import to_triple
    >>> folder, name = tempfile.mkdtemp(), "split=train/part-00000.parquet"
    >>> rows = to_triple(sp.csr_matrix(np.tile(np.eye(4, dtype=np.float32), (10, 1))))  # features, and labels too
    >>> path = os.path.join(folder, name)
    >>> part = write_dataset_part(path, np.arange(40), rows, rows, n_features=4, n_labels=4, row_group=16)
    >>> about = {"dataset": "heads", "n_features": 4, "n_labels": 4, "k": 1}
    >>> about["splits"] = {"train": {"rows": 40, "parts": [{"path": name, **part}]}}
    >>> with open(os.path.join(folder, "dataset.json"), "w") as file:
    ...     json.dump(about, file)
    >>> from xpipe.heads import ParquetBatches
    >>> [batch.n_rows for batch in ParquetBatches(folder, batch_size=16)]
    [13, 13, 14]
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
        held_out_from: float = 0.0,
        role: Literal["train", "validation"] = "train",
        prefetch: bool = True,
        pinned: bool = False,
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
        self.held_out_from, self.pinned = held_out_from % 1.0, pinned
        self.n_features, self.n_labels = int(about["n_features"]), int(about["n_labels"])
        self.with_chances = about.get("label_scores") == "posterior"
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
        """The epoch of the next pass, from 0."""
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next pass; without a call every pass has the order of epoch 0."""
        self._epoch.fill_(epoch)

    def count_rows(self) -> int:
        """The number of rows of one epoch. Reads the sample numbers if some rows are held out."""
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
        rows = Batch(
            as_tensor(samples, np.int64),
            as_tensor(features.indptr, np.int64),
            as_tensor(features.indices, np.int64),
            as_tensor(features.values, np.float32),
            Targets(
                as_tensor(labels.indptr, np.int64),
                as_tensor(labels.indices, np.int64),
                as_tensor(labels.values, np.float32) if self.with_chances else None,
            ),
        )
        return rows.pinned() if self.pinned else rows  # in the thread that reads ahead

    def _check(self, features: Triple, labels: Triple) -> None:
        """Raise DataError for feature or label numbers out of range: anybody may have written the files."""
        for name, triple, width in (("feature", features, self.n_features), ("label", labels, self.n_labels)):
            if len(triple.indices) and not 0 <= int(triple.indices.min()) <= int(triple.indices.max()) < width:
                raise DataError(
                    f"a {name} number outside 0..{width - 1}", where=f"{self.folder}, split {self.split}",
                    fix="emit the dataset again",
                )  # fmt: skip

    def _chosen(self, samples: np.ndarray) -> np.ndarray:
        """Which samples have this role (bool). The same for any order of rows and any epoch."""
        key = int(seeding.bit_generator(self.seed, "validation").random_raw())
        hashes = np.empty(len(samples), np.uint64)
        hash_numbers(samples.astype(np.uint64) ^ np.uint64(key), hashes)
        hashes -= np.uint64(int(self.held_out_from * 2**64))  # wraps around
        held_out = hashes < np.uint64(int(self.validation * 2**64))
        return held_out if self.role == "validation" else ~held_out

    def _cut(self, rows: Batch) -> Iterator[Batch]:
        """The rows of a window as batches of equal size; their tensors are views."""
        n_batches = math.ceil(rows.n_rows / self.batch_size)
        bounds = np.arange(n_batches + 1) * rows.n_rows // max(1, n_batches)
        places, owned = rows.offsets[bounds].tolist(), rows.targets.offsets[bounds].tolist()
        for number, (first, last) in enumerate(pairwise(bounds.tolist())):
            inside, of_labels = slice(*places[number : number + 2]), slice(*owned[number : number + 2])
            batch = Batch(
                rows.samples[first:last],
                rows.offsets[first : last + 1] - inside.start,
                rows.indices[inside],
                rows.values[inside],
                Targets(
                    rows.targets.offsets[first : last + 1] - of_labels.start,
                    rows.targets.labels[of_labels],
                    None if rows.targets.chances is None else rows.targets.chances[of_labels],
                ),
            )
            yield batch.pinned() if self.pinned else batch  # only the offsets are new
