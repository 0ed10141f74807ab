"""Files beside the rows: names of labels and features, filter pairs, group labels, the list of rejected rows.

Holds no rows of samples. Each function is one small unit at a worker.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from xpipe.engine.messages import Finished, Unit, write_entry
from xpipe.errors import DataError
from xpipe.formats.fitting import filters_beside, names_beside
from xpipe.formats.rows import MOST_REJECTS
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json
from xpipe.stages.arrays import write_array
from xpipe.stages.emitted_paths import REJECTS_FILE
from xpipe.stages.matrices import write_matrix_part
from xpipe.stages.read.work import ScannedData, cut_rows, read_rows, rejected_path

REJECTS_SCHEMA = pa.schema(
    [
        ("file", pa.string()),
        ("row", pa.int64()),
        ("line", pa.int64()),
        ("token", pa.string()),
        ("reason", pa.string()),
        ("text", pa.string()),
    ]
)


@dataclass(frozen=True)
class RejectLists(Unit):
    """The parts whose rejected rows go into one list, in this order."""

    parts: tuple[str, ...]


def write_names(folder: str, unit: Unit, shared: ScannedData) -> Finished[None]:
    """names/labels.json and names/features.json (lists), names/filter-SPLIT.npy (pairs of input row and label)."""
    layout, shape = shared.reading.layout, shared.shape
    entries = []
    for name, names in names_beside(layout, shape).items():
        entries.append(write_entry(folder, f"names/{name}.json", dump_json(names.names)))
    for split, split_files in layout.splits.items():
        pairs = filters_beside(layout.folder, split_files, shape.rows[split], shape.n_labels)
        if pairs is not None:
            entries.append(write_array(folder, f"names/filter-{split}.npy", pairs))
    return Finished(tuple(entries), None)


def write_group_labels(folder: str, unit: Unit, shared: ScannedData) -> Finished[None]:
    """The group labels (Y2), cut into parts of groups. A bad row is an error: dropping it would renumber the groups."""
    scanned = next(each for each in shared.files if each.file.role == "group_labels")
    entries = []
    for groups in cut_rows(scanned.size.rows, shared.reading.params.part_rows):
        read = read_rows(folder, scanned, groups, shared.reading)
        labels = read.matrices["group_labels"]
        entries.append(
            write_matrix_part(folder, "group_labels", scanned.file.split, groups.index, read.samples, labels)
        )
    return Finished(tuple(entries), None)


def write_rejects(folder: str, unit: RejectLists, shared: ScannedData) -> Finished[None]:
    """rejects.parquet: every dropped row with its file, line, token and reason. Written even if no row was dropped."""
    rejects = []
    for part in unit.parts:
        path = files.join(folder, rejected_path(part))
        if files.exists(path):
            rejects += json.loads(files.read_bytes(path))
        if len(rejects) > MOST_REJECTS:
            raise DataError(
                f"more than {MOST_REJECTS:,} bad rows", where=shared.reading.layout.folder,
                fix="look at the first lines: the files may be of another format",
            )  # fmt: skip
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rejects, schema=REJECTS_SCHEMA), sink)
    return Finished((write_entry(folder, f"rejects/{REJECTS_FILE}", sink.getvalue()),), None)
