"""Files <-> CSR: XMC text, split files, svmlight, npz, Parquet, names and whole folders.

Holds nothing of its own: public names are imported on first use, so that `import xpipe.formats` is instant.
"""

from __future__ import annotations

from typing import Any

from xpipe.ground.lazy import public_name

PUBLIC = {
    "read_xmc": "xmc_text",
    "write_xmc": "xmc_text",
    "format_rows": "xmc_text",
    "read_sparse": "sparse_text",
    "write_sparse": "sparse_text",
    "read_svmlight": "svmlight",
    "write_svmlight": "svmlight",
    "read_npz": "npz",
    "write_npz": "npz",
    "read_names": "names",
    "read_filter_labels": "names",
    "read_index_split": "names",
    "read_group_ids": "names",
    "read_membership": "names",
    "Names": "names",
    "recognise": "layout",
    "read_dataset": "dataset",
    "Dataset": "dataset",
    "Split": "dataset",
    "Layout": "layout",
    "SplitFiles": "layout",
    "Reject": "source",
    "Rows": "source",
    "TextSource": "source",
    "open_text": "text",
    "parse_range": "text",
    "row_offsets": "text",
    "decompress": "text",
}


def __getattr__(name: str) -> Any:
    return public_name(__name__, PUBLIC, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *PUBLIC])
