"""What comes with the rows: names of labels and features, filter pairs, group labels, the list of rejected rows.

Runs at a worker, one small unit each.
"""

from __future__ import annotations

import io
import json
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from xpipe.errors import DataError
from xpipe.formats.fitting import Shape, filters_beside, names_beside
from xpipe.formats.layout import SplitFiles
from xpipe.formats.parts import slice_rows, write_part
from xpipe.formats.rows import MOST_REJECTS
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json
from xpipe.stages.matrices import part_path
from xpipe.stages.read.work import entry_of, read_role

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


def write_names(folder: str, unit: dict, shared: dict) -> tuple[list[dict], dict]:
    """names/labels.json and names/features.json (lists), names/filter-SPLIT.npy (pairs of input row and label)."""
    shape = Shape(**shared["shape"])
    layout = SimpleNamespace(label_names=shared["label_names"], feature_names=shared["feature_names"])
    entries = []
    for name, names in names_beside(shared["folder"], layout, shape).items():
        entries.append(entry_of(folder, f"names/{name}.json", dump_json(names.names)))
    for split, split_files in shared["splits"].items():
        pairs = filters_beside(shared["folder"], SplitFiles(**split_files), shape.rows[split], shape.n_labels)
        if pairs is not None:
            buffer = io.BytesIO()
            np.save(buffer, pairs, allow_pickle=False)
            entries.append(entry_of(folder, f"names/filter-{split}.npy", buffer.getvalue()))
    return entries, {}


def write_group_labels(folder: str, unit: dict, shared: dict) -> tuple[list[dict], dict]:
    """Y2, cut into parts of groups. Its rows are groups, so a bad one cannot be dropped."""
    split = next(name.split("-")[0] for name in shared["sources"] if name.endswith("-group_labels"))
    n_groups, size = shared["shape"]["n_groups"], shared["params"]["part_rows"]
    strict = {**shared, "params": {**shared["params"], "on_bad_row": "error"}}
    entries = []
    for index, start in enumerate(range(0, max(n_groups, 1), size)):
        rows = min(size, n_groups - start)
        part = {"split": split, "index": index, "start": start, "rows": rows}
        triple = read_role(folder, part, strict, "group_labels").matrices["group_labels"]
        path = part_path("group_labels", split, index)
        facts = write_part(files.join(folder, path), np.arange(start, start + rows), slice_rows(triple, 0, rows))
        entries.append({"path": path, "split": split, **facts})
    return entries, {}


def write_rejects(folder: str, unit: dict, shared: dict) -> tuple[list[dict], dict]:
    """rejects.parquet: every dropped row with its file, line, token and reason; there even when nothing was dropped."""
    rejects = []
    for step in unit["steps"]:
        path = files.join(folder, "rejected", f"{step}.json")
        if files.exists(path):
            rejects += json.loads(files.read_bytes(path))
        if len(rejects) > MOST_REJECTS:
            raise DataError(
                f"more than {MOST_REJECTS:,} bad rows", where=shared["folder"],
                fix="look at the first lines: the files may be of another format",
            )  # fmt: skip
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rejects, schema=REJECTS_SCHEMA), sink)
    return [entry_of(folder, "rejects/rejects.parquet", sink.getvalue())], {"rejected": len(rejects)}


WRITERS = {"names": write_names, "group_labels": write_group_labels, "rejects": write_rejects}
