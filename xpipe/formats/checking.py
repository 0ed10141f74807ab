"""What a folder really holds, every row read, beside what is published of it. Prints nothing.

Refuses what stage read refuses: both ask `fitting` whether the files fit each other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpipe.formats import catalog
from xpipe.formats.fitting import Shape, check_trainable, filters_beside, fit_together, names_beside
from xpipe.formats.layout import Layout, recognise
from xpipe.ground import files
from xpipe.ground.machine import usable_cores
from xpipe.ground.sparse import Triple, to_triple
from xpipe.grouping.groups import spread_labels

ROWS_AT_A_TIME = 1 << 16


@dataclass(frozen=True)
class CheckReport:
    """Rows of the comparison; `ok` when nothing published differs. `title` names what it was compared with."""

    layout_sentence: str
    synthetic: bool
    title: str
    rows: list[catalog.Row]

    @property
    def ok(self) -> bool:
        return not any(row.ok is False for row in self.rows)


def check_folder(folder: str, name: str | None = None, *, format: str | None = None, **reading: Any) -> CheckReport:
    """Read every row of a folder and compare its statistics with a dataset of the catalog (`name`, else recognised).

    format, reading (index_base, label_base, n_features, n_labels, header, split_base): as in read_dataset. Text is read
    a chunk at a time. Raises DataError for every folder that a pipeline would refuse to read.
    """
    known = catalog.lookup(name) if name else None
    folder = files.local(folder)
    layout = recognise(folder, format=format)
    counter: catalog.StatisticsCounter | None = None
    in_ranges = layout.format in ("xmc", "svmlight") and not any(
        split.rows or split.membership or split.group_labels or split.group_ids for split in layout.splits.values()
    )
    for split, features, labels, shape in _ranges(layout, reading) if in_ranges else _whole(layout, reading):
        if counter is None:
            counter = catalog.StatisticsCounter(shape.n_features, shape.n_labels)
        counter.add(split, features, labels)
    assert counter is not None  # a recognised folder has a split, and a split has a piece
    found = counter.result()
    known = known or catalog.guess(found, os.path.basename(os.path.abspath(folder)))
    title = f"compared with {known.title}" if known else "no published dataset has this name or shape"
    return CheckReport(layout.sentence, layout.synthetic, title, catalog.compare(known, found))


def _whole(layout: Layout, reading: dict) -> Iterator[tuple[str, Triple, Triple, Shape]]:
    """(split, features, labels, shape of all) of each split; read_dataset has made the checks."""
    from xpipe.formats.dataset import read_dataset

    splits = read_dataset(layout.folder, format=layout.format, **reading).splits
    rows = {name: split.X.shape[0] for name, split in splits.items()}
    for name, split in splits.items():
        labels = split.Y if split.Y is not None else spread_labels(split.Y1, split.Y2)
        shape = Shape(rows, split.X.shape[1], labels.shape[1], None)
        check_trainable(layout.folder, shape)
        yield name, to_triple(split.X), to_triple(labels), shape


def _ranges(layout: Layout, reading: dict) -> Iterator[tuple[str, Triple, Triple, Shape]]:
    """(split, features, labels, shape of all) in bounded pieces; all files are checked before the first row."""
    from xpipe.formats.text import open_text, parse_range, row_offsets

    sizes = {key: value for key, value in reading.items() if key not in ("header", "split_base")}
    header = layout.format == "xmc" and reading.get("header", True)
    scanned, facts = {}, {}
    for name, split in layout.splits.items():
        source = open_text(files.join(layout.folder, str(split.samples)), layout.format, header=header, **sizes)
        offsets, n_rows = row_offsets(source, ROWS_AT_A_TIME)
        scanned[name] = source, offsets, n_rows
        facts[f"{name}-samples"] = {"rows": n_rows, "columns": source.n_features, "labels": source.n_labels}
    shape = fit_together(layout.folder, facts)
    check_trainable(layout.folder, shape)
    names_beside(layout.folder, layout, shape)
    for name, split in layout.splits.items():
        filters_beside(layout.folder, split, shape.rows[name], shape.n_labels)
    for name, (source, offsets, n_rows) in scanned.items():
        ends = np.array([source.first_byte, offsets[-1]]) if source.compressed else offsets  # gzip has no ranges
        for index in range(len(ends) - 1):
            first_row = min(index * ROWS_AT_A_TIME, n_rows)
            rows = parse_range(source, int(ends[index]), int(ends[index + 1]), first_row, threads=usable_cores())
            assert rows.labels is not None
            yield name, rows.features, rows.labels, shape
