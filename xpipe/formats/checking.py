"""Statistics of a folder, every row read, compared with what is published of the dataset.

Prints nothing. Refuses what stage read refuses: both ask `fitting` whether the files fit each other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from xpipe.formats import catalog
from xpipe.formats.fitting import Shape, check_trainable, filters_beside, fit_together, names_beside
from xpipe.formats.layout import Layout, recognise
from xpipe.formats.options import ReadOptions
from xpipe.formats.reading import files_with_rows, open_source, size_of_text
from xpipe.formats.row_counts import row_offsets
from xpipe.formats.text import parse_range
from xpipe.ground import files
from xpipe.ground.machine import usable_cores
from xpipe.ground.sparse import Triple, to_triple
from xpipe.grouping.groups import spread_labels

ROWS_AT_A_TIME = 1 << 16


@dataclass(frozen=True)
class CheckReport:
    """What was found. title: the dataset it is compared with. rows: one per statistic."""

    layout_sentence: str
    synthetic: bool
    title: str
    rows: list[catalog.Row]

    @property
    def ok(self) -> bool:
        """Whether nothing differs from what is published."""
        return not any(row.ok is False for row in self.rows)


def check_folder(folder: str, name: str | None = None, *, format: str | None = None, **reading: Any) -> CheckReport:
    """Read every row of a folder, and compare its statistics with those published of a dataset.

    Parameters
    ----------
    folder : str
        A folder that `read_dataset` reads. Text is read in chunks, in bounded memory.
    name : str, optional
        A dataset of the catalog; by default the one that the folder's name or the shape of the data suggests.
    format : str, optional
        As in `read_dataset`.
    **reading
        index_base, label_base, n_features, n_labels, header, split_base: as in `read_dataset`.

    Returns
    -------
    CheckReport
        One row per statistic, each with the published and the found value.

    Raises
    ------
    DataError
        For every folder that a pipeline would refuse to read.
    """
    known = catalog.lookup(name) if name else None
    folder = files.local(folder)
    layout = recognise(folder, format=format)
    counter: catalog.StatisticsCounter | None = None
    in_ranges = layout.format in ("xmc", "svmlight") and not any(
        split.rows or split.membership or split.group_labels or split.group_ids for split in layout.splits.values()
    )
    pieces = _ranges(layout, ReadOptions(**reading)) if in_ranges else _whole(layout, reading)
    for split, features, labels, shape in pieces:
        if counter is None:
            counter = catalog.StatisticsCounter(shape.n_features, shape.n_labels)
        counter.add(split, features, labels)
    assert counter is not None  # a recognised folder has a split, and a split has a piece
    found = counter.result()
    known = known or catalog.guess(found, os.path.basename(os.path.abspath(folder)))
    title = f"compared with {known.title}" if known else "no published dataset has this name or shape"
    return CheckReport(layout.sentence, layout.synthetic, title, catalog.compare(known, found))


def _whole(layout: Layout, reading: dict[str, Any]) -> Iterator[tuple[str, Triple, Triple, Shape]]:
    """(split, features, labels, shape of all) of each split; `read_dataset` makes the checks."""
    from xpipe.formats.dataset import read_dataset

    splits = read_dataset(layout.folder, format=layout.format, **reading).splits
    rows = {name: split.X.shape[0] for name, split in splits.items()}
    for name, split in splits.items():
        labels = split.Y
        if labels is None:
            assert split.Y1 is not None, "a split without labels has labels of groups"
            labels = spread_labels(split.Y1, split.Y2)
        shape = Shape(rows, split.X.shape[1], labels.shape[1], None)
        check_trainable(layout.folder, shape)
        yield name, to_triple(split.X), to_triple(labels), shape


def _ranges(layout: Layout, options: ReadOptions) -> Iterator[tuple[str, Triple, Triple, Shape]]:
    """(split, features, labels, shape of all) in bounded pieces; all files are checked before the first row is read."""
    scanned = [(file, open_source(file, options)) for file in files_with_rows(layout)]
    offsets = [row_offsets(source, ROWS_AT_A_TIME) for _, source in scanned]
    sizes = [size_of_text(file, source, n_rows) for (file, source), (_, n_rows) in zip(scanned, offsets, strict=True)]
    shape = fit_together(layout.folder, sizes)
    check_trainable(layout.folder, shape)
    names_beside(layout, shape)
    for name, split in layout.splits.items():
        filters_beside(layout.folder, split, shape.rows[name], shape.n_labels)
    for (file, source), (starts, n_rows) in zip(scanned, offsets, strict=True):
        ends = np.array([source.first_byte, starts[-1]]) if source.compressed else starts  # gzip has no ranges
        for index, (start, stop) in enumerate(pairwise(ends.tolist())):
            first_row = min(index * ROWS_AT_A_TIME, n_rows)
            rows = parse_range(source, start, stop, first_row, threads=usable_cores())
            assert rows.labels is not None, "these files have features and labels"
            yield file.split, rows.features, rows.labels, shape
