"""Training rows in the folder of the stage: written once, part by part, and opened by whoever needs some of them.

Holds no training. Features lie in Arrow parts, which local workers map: workers on one machine share the pages, and a
task pages in what it needs. Labels are transposed once, for all tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from xpipe.engine.messages import FileEntry, Finished, Unit
from xpipe.formats.parquet import check_samples, iterate_groups, read_about
from xpipe.formats.parquet_files import checked_matrix
from xpipe.formats.parts import read_part
from xpipe.ground import files
from xpipe.ground.sparse import Triple, to_matrix, to_triple
from xpipe.ground.sparse_rows import concatenate, with_ones
from xpipe.stages.arrays import read_array, write_array
from xpipe.stages.matrices import part_path, write_matrix_part
from xpipe.trees.training_data import Piece, TrainingData, row_scales, rows_of_labels

FEATURES, LABELS, SCALES, LABEL_ROWS = "rows", "row_labels", "scales/scales.npy", "label_rows"
PART_ROWS = 16384  # rows of a stored part, about: several files of the dataset
KEPT_BYTES = 2**30  # of parts that a process keeps open


@dataclass(frozen=True)
class DatasetFiles(Unit):
    """Files first to last - 1 of the training split: they become part `index`."""

    index: int
    first: int
    last: int


@dataclass(frozen=True)
class Stored:
    """Sizes of a part."""

    rows: int
    entries: int


@dataclass(frozen=True)
class RowFacts:
    """All stored rows. starts[p]: the first row of part p; the last one is the number of rows."""

    starts: tuple[int, ...]
    entries: int
    n_features: int
    n_labels: int


@dataclass(frozen=True)
class LabelFacts:
    """What is known once labels are transposed. chunks: labels first to last - 1 of those with positives, and rows."""

    labels: int
    chunks: tuple[tuple[int, int, int], ...]


def bundle_files(dataset: str) -> list[DatasetFiles]:
    """The files of the training split, bundled to parts; their sizes are rows."""
    sizes = [part["rows"] for part in read_about(dataset)["splits"]["train"]["parts"]]
    units: list[DatasetFiles] = []
    first = rows = 0
    for number, size in enumerate(sizes):
        rows += size
        if rows >= PART_ROWS or number == len(sizes) - 1:
            units.append(DatasetFiles(f"rows-{len(units):05d}", rows, len(units), first, number + 1))
            first, rows = number + 1, 0
    return units


def store_rows(folder: str, unit: DatasetFiles, dataset: str, *, weighted: bool) -> Finished[Stored]:
    """Read some files of the dataset, check them, and write their features and labels as one part.

    weighted: whether labels count with their chances; candidates are labels, too, then.
    """
    about = read_about(dataset)
    groups = list(iterate_groups(dataset, "train", unit.first, unit.last, soft=weighted))
    samples = np.concatenate([np.zeros(0, np.int64), *(group[1] for group in groups)])
    features = checked_matrix(concatenate([group[2] for group in groups]), about["n_features"], dataset)
    labels = checked_matrix(concatenate([group[3] for group in groups]), about["n_labels"], dataset)
    entries = tuple(
        write_matrix_part(folder, name, "train", unit.index, samples, to_triple(matrix))
        for name, matrix in ((FEATURES, features), (LABELS, labels))
    )
    scales = write_array(folder, f"scales/part-{unit.index:05d}.npy", row_scales(to_triple(features)))
    return Finished((*entries, scales), Stored(len(samples), features.nnz))


def transpose_labels(folder: str, facts: RowFacts, dataset: str, *, weighted: bool) -> tuple[FileEntry, ...]:
    """Write the rows of each label, and the factors of all rows."""
    n_parts = len(facts.starts) - 1
    parts = [read_part(files.join(folder, part_path(LABELS, "train", index))) for index in range(n_parts)]
    check_samples(np.concatenate([np.zeros(0, np.int64), *(samples for samples, _ in parts)]), dataset)
    scores = concatenate([labels for _, labels in parts])
    weights = scores.values if weighted else np.ones(len(scores.values), dtype=np.float32)
    label_rows = rows_of_labels(to_matrix(with_ones(scores), facts.n_labels), weights)
    scales = [read_array(folder, f"scales/part-{index:05d}.npy") for index in range(n_parts)]
    arrays = {
        SCALES: np.concatenate([np.zeros(0, np.float32), *scales]),
        f"{LABEL_ROWS}/indptr.npy": label_rows.indptr.astype(np.int64),
        f"{LABEL_ROWS}/indices.npy": label_rows.indices.astype(np.int32),
        f"{LABEL_ROWS}/values.npy": label_rows.data.astype(np.float32),
    }
    return tuple(write_array(folder, path, array) for path, array in arrays.items())


@lru_cache(maxsize=1)
def open_data(folder: str, facts: RowFacts) -> TrainingData:
    """The stored rows as training takes them. A process keeps them open, because it trains many units on them."""
    arrays = [_open_array(folder, f"{LABEL_ROWS}/{name}.npy") for name in Triple._fields]
    label_rows = to_matrix(Triple(*arrays), facts.starts[-1])
    return TrainingData(StoredRows(folder, facts), facts.n_features, _open_array(folder, SCALES), label_rows)


def _open_array(folder: str, path: str) -> np.ndarray:
    """An array of the folder, mapped where it is local."""
    where = files.join(folder, path)
    if not files.is_local(where):
        return read_array(folder, path)
    try:
        return np.asarray(np.load(where, mmap_mode="r", allow_pickle=False))
    except ValueError:  # an empty array cannot be mapped
        return read_array(folder, path)


class StoredRows:
    """Rows in parts, of which some are kept open. See `trees.training_data.Rows`."""

    def __init__(self, folder: str, facts: RowFacts):
        self._folder, self._facts = folder, facts
        self._open: dict[int, Triple] = {}

    @property
    def n_rows(self) -> int:
        """All rows."""
        return self._facts.starts[-1]

    @property
    def n_entries(self) -> int:
        """Stored entries of all rows."""
        return self._facts.entries

    def pieces(self, rows: np.ndarray) -> Iterator[Piece]:
        """The parts with the rows asked for, in order."""
        cuts = np.searchsorted(rows, self._facts.starts)
        for index, (first, last) in enumerate(pairwise(cuts.tolist())):
            if last > first:
                start = self._facts.starts[index]
                yield Piece(self._part(index), start, rows[first:last] - start)

    def _part(self, index: int) -> Triple:
        """A part. The parts that were opened first are closed where too much is open: mapped pages count as memory."""
        if index not in self._open:
            self._open[index] = read_part(files.join(self._folder, part_path(FEATURES, "train", index)))[1]
            while len(self._open) > 1 and sum(8 * int(part.indptr[-1]) for part in self._open.values()) > KEPT_BYTES:
                del self._open[next(iter(self._open))]
        return self._open[index]
