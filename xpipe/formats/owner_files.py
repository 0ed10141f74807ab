"""The table owners/ of a run: who owns which label, by name, and how sure that is. Written and read in parts.

Holds no assignment and no names: its columns come from stage assign. One row per sample and label that it owns, in the
order of the samples, then of the labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from xpipe.errors import DataError
from xpipe.formats.parquet_files import open_parquet
from xpipe.formats.parquet_writing import WrittenFile, write_table
from xpipe.ground import files

# id, name: null where the data has none. group: its name, or its number as text. chance: null where a method has none.
OWNER_COLUMNS = [
    ("row", pa.int64()),
    ("id", pa.string()),
    ("group", pa.string()),
    ("label", pa.int32()),
    ("name", pa.string()),
    ("chance", pa.float32()),
]
ROW_GROUP = 1 << 16
FIX = "run the pipeline again: it is written anew"


def write_owners(path: str, columns: Mapping[str, Any], n_labels: int) -> WrittenFile:
    """Write one part of owners/; `columns` as in OWNER_COLUMNS, all of the same length.

    Examples
    --------
    >>> import os, tempfile
    >>> from xpipe.formats.owner_files import read_owners, write_owners
    >>> folder = tempfile.TemporaryDirectory()
    >>> rows = {"row": [7], "id": ["sku-7"], "group": ["brand"], "label": [2], "name": ["red"], "chance": [0.75]}
    >>> _ = write_owners(os.path.join(folder.name, "part-00000.parquet"), rows, n_labels=3)
    >>> [part.to_pylist() for part in read_owners(folder.name)] == [[{name: rows[name][0] for name in rows}]]
    True
    >>> folder.cleanup()
    """
    given = [(columns[name], kind) for name, kind in OWNER_COLUMNS]
    arrays = [column if isinstance(column, pa.Array) else pa.array(column, kind) for column, kind in given]
    return write_table(path, OWNER_COLUMNS, arrays, {"n_labels": str(n_labels)}, ROW_GROUP)


def read_owners(folder: str) -> Iterator[pa.Table]:
    """The rows of owners/, one table per stored row group, in order. Raises DataError where there are none."""
    names = [name for name in files.listing(folder) if name.startswith("part-") and name.endswith(".parquet")]
    if not names:
        raise DataError("no owners were written", where=folder, fix="run a pipeline with a section `assign`")
    for name in names:
        with open_parquet(files.join(folder, name), OWNER_COLUMNS, fix=FIX) as part:
            for number in range(part.num_row_groups):
                yield part.read_row_group(number, columns=[column for column, _ in OWNER_COLUMNS])
