"""What a folder really holds, every row read, beside what is published of it. Prints nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpipe import files
from xpipe.formats import catalog
from xpipe.formats.layout import Layout, recognise
from xpipe.grouping import spread_labels
from xpipe.machine import usable_cores
from xpipe.sparse import Triple, to_triple

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


def check_folder(folder: str, name: str | None = None, **reading: Any) -> CheckReport:
    """Read every row of a folder and compare its statistics with a dataset of the catalog (`name`, else recognised).

    reading: index_base, label_base, n_features, n_labels, as in read_dataset. Text is read a chunk at a time.
    """
    known = catalog.lookup(name) if name else None
    folder = files.local(folder)
    layout = recognise(folder)
    counter: catalog.StatisticsCounter | None = None
    for split, features, labels, n_features, n_labels in _pieces(layout, reading):
        if counter is None:
            counter = catalog.StatisticsCounter(n_features, n_labels)
        counter.add(split, features, labels)
    assert counter is not None  # a recognised folder has a split, and a split has a piece
    found = counter.result()
    known = known or catalog.guess(found, os.path.basename(os.path.abspath(folder)))
    title = f"compared with {known.title}" if known else "no published dataset has this name or shape"
    return CheckReport(layout.sentence, layout.synthetic, title, catalog.compare(known, found))


def _pieces(layout: Layout, reading: dict) -> Iterator[tuple[str, Triple, Triple, int, int]]:
    """(split, features, labels, n_features, n_labels) of all rows, in bounded pieces where the format allows."""
    ranged = layout.format in ("xmc", "svmlight") and not any(split.rows for split in layout.splits.values())
    if not ranged:
        from xpipe.formats.dataset import read_dataset

        for name, part in read_dataset(layout.folder, **reading).splits.items():
            labels = part.Y if part.Y is not None else spread_labels(part.Y1, part.Y2)
            yield name, to_triple(part.X), to_triple(labels), part.X.shape[1], labels.shape[1]
        return
    from xpipe.formats.text import open_text, parse_range, row_offsets

    for name, split in layout.splits.items():
        path = files.join(layout.folder, str(split.samples))
        source = open_text(path, layout.format, header=layout.format == "xmc", **reading)
        offsets, n_rows = row_offsets(source, ROWS_AT_A_TIME)
        if source.compressed:  # gzip has no ranges: one stream
            offsets = np.array([source.first_byte, offsets[-1]])
        for index in range(len(offsets) - 1):
            first_row = min(index * ROWS_AT_A_TIME, n_rows)
            rows = parse_range(source, int(offsets[index]), int(offsets[index + 1]), first_row, threads=usable_cores())
            assert rows.labels is not None
            yield name, rows.features, rows.labels, source.n_features, source.n_labels
