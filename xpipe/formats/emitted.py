"""dataset.json and labels.parquet of an emitted dataset: its shape, and that exactly the files it names are there.

Holds no rows: `parquet` reads those, and checks them by the digests from here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, NotRequired

import numpy as np
import pyarrow as pa
from pydantic import Field
from typing_extensions import TypedDict

from xpipe.errors import DataError
from xpipe.formats.file_names import split_folder
from xpipe.formats.names import Names
from xpipe.formats.parquet_files import open_parquet
from xpipe.ground import files
from xpipe.ground.checked_json import Count, InsidePath, Sha256, read_json

DATASET_FORMAT = "2"  # of dataset.json and of where files lie
AGAIN = "emit the dataset again"
SplitName = Literal["train", "test", "dev"]
Width = Annotated[int, Field(ge=0, le=2**31 - 1)]
LABELS_SCHEMA = pa.schema(
    [
        ("label", pa.int32()),
        ("original_label", pa.int32()),
        ("name", pa.string()),
        ("frequency", pa.int64()),
        ("inverse_propensity", pa.float64()),
    ]
)


class PartAbout(TypedDict):
    """One file of rows."""

    path: InsidePath
    rows: Count
    sha256: Sha256


class SplitAbout(TypedDict):
    """One split: the number of its rows, and its files in order."""

    rows: Count
    parts: list[PartAbout]


class FileAbout(TypedDict):
    """One file without rows of samples."""

    path: InsidePath
    sha256: Sha256


class VectorsAbout(TypedDict):
    """The files of label vectors, in order."""

    parts: list[PartAbout]


class PropensityAbout(TypedDict):
    """The constants A and B of the inverse propensities in labels.parquet."""

    a: Annotated[float, Field(allow_inf_nan=False)]
    b: Annotated[float, Field(allow_inf_nan=False)]


class About(TypedDict):
    """The keys of dataset.json that readers rely on; the file has more."""

    n_features: Width
    n_labels: Width
    splits: dict[SplitName, SplitAbout]
    format: NotRequired[Literal["1", "2"]]
    n_original_labels: NotRequired[Width]
    labels: NotRequired[FileAbout]
    label_embedding: NotRequired[VectorsAbout]
    label_scores: NotRequired[str]
    candidates: NotRequired[Count]
    labels_a_row: NotRequired[Annotated[float, Field(ge=0, allow_inf_nan=False)]]
    k: NotRequired[Width]
    filtered: NotRequired[dict[str, Any]]
    propensity: NotRequired[PropensityAbout]
    synthetic: NotRequired[bool]


class Part(NamedTuple):
    """A file of a split; rows and sha256 are those that dataset.json says."""

    path: str
    rows: int
    sha256: str


class LabelTable(NamedTuple):
    """The columns of labels.parquet, one entry per label.

    original: the label numbers of the input. names: None where no label has a name. frequency: training rows that have
    the label.
    """

    original: np.ndarray
    names: list[str | None] | None
    frequency: np.ndarray
    inverse_propensity: np.ndarray


def read_about(folder: str) -> Any:
    """The content of dataset.json, see `About`. Raises DataError where it is missing or of another shape."""
    path = files.join(folder, "dataset.json")
    if not files.exists(path):
        raise DataError(
            f"no emitted dataset in {folder}", why="dataset.json is missing", fix="give its tree/ or heads/ folder"
        )
    return read_json(path, About, fix=AGAIN)


def list_parts(folder: str, split: str, about: Any = None) -> list[Part]:
    """The files of a split in order.

    Raises DataError where the split is missing, and where a file is listed twice or not listed.
    """
    about = read_about(folder) if about is None else about
    if split not in about["splits"]:
        raise DataError(
            f"no split {split!r} in {folder}", why=f"it has {', '.join(about['splits'])}", fix="name one of these"
        )
    listed = [part["path"] for parts in about["splits"].values() for part in parts["parts"]]
    if len(set(listed)) < len(listed):
        twice = next(path for path in listed if listed.count(path) > 1)
        raise DataError("dataset.json names a file twice", where=files.join(folder, twice), fix=AGAIN)
    own = about["splits"][split]["parts"]
    for below in sorted({files.parent(part["path"]) for part in own} | {f"split={split}", split_folder(split)}):
        top = folder if below == "." else files.join(folder, below)
        names = [name if below == "." else f"{below}/{name}" for name in files.listing(top)]
        extra = [name for name in names if name.endswith(".parquet") and name not in listed]
        if extra and below != ".":
            raise DataError(
                "a file that dataset.json does not name", where=files.join(folder, extra[0]),
                why="other readers take every file of the folder for a part", fix=f"remove it, or {AGAIN}",
            )  # fmt: skip
    rows = sum(part["rows"] for part in own)
    if rows != about["splits"][split]["rows"]:
        raise DataError(
            f"split {split!r} has {rows:,} rows", where=folder,
            why=f"dataset.json says {about['splits'][split]['rows']:,}", fix=AGAIN,
        )  # fmt: skip
    return [Part(files.join(folder, part["path"]), part["rows"], part["sha256"]) for part in own]


def read_label_table(folder: str) -> LabelTable:
    """The table of labels. Raises DataError where it is missing or does not fit dataset.json."""
    about = read_about(folder)
    listed = about.get("labels", {"path": "labels.parquet", "sha256": None})
    path = files.join(folder, listed["path"])
    if not files.exists(path):
        raise DataError("labels.parquet is missing", where=folder, fix=AGAIN)
    columns = [(field.name, field.type) for field in LABELS_SCHEMA]
    with open_parquet(path, columns, sha256=listed["sha256"], fix=AGAIN) as parquet:
        table = parquet.read(columns=LABELS_SCHEMA.names)
    return _check_labels(table, about, path)


def emitted_names(folder: str) -> dict[str, Names]:
    """The names of an emitted dataset's labels, as `names_beside` gives them; ids are the original label numbers.

    Empty where the labels have neither names nor other numbers than before.
    """
    if "labels" not in read_about(folder):
        return {}
    table = read_label_table(folder)
    renumbered = not np.array_equal(table.original, np.arange(len(table.original)))
    if table.names is None and not renumbered:
        return {}
    given = table.names or [None] * len(table.original)
    names = [f"label {old}" if name is None else name for name, old in zip(given, table.original.tolist(), strict=True)]
    return {"labels": Names(names, [str(old) for old in table.original.tolist()] if renumbered else None)}


def _check_labels(table: pa.Table, about: Any, path: str) -> LabelTable:
    """The columns of the table. Raises DataError where one does not fit dataset.json."""

    def wrong(what: str) -> DataError:
        return DataError(what, where=path, fix=AGAIN)

    if table.num_rows != about["n_labels"]:
        raise wrong(f"{table.num_rows:,} labels, dataset.json says {about['n_labels']:,}")
    for name in ("label", "original_label", "frequency", "inverse_propensity"):
        if table[name].null_count:
            raise wrong(f"a null in the column {name}")
    arrays = {name: table[name].to_numpy() for name in LABELS_SCHEMA.names if name != "name"}
    if not np.array_equal(arrays["label"], np.arange(table.num_rows)):
        raise wrong("labels are not numbered 0, 1, 2, ... in order")
    original = arrays["original_label"]
    most = about.get("n_original_labels", 2**31)
    if len(original) and (original.min() < 0 or original.max() >= most or len(np.unique(original)) < len(original)):
        raise wrong("an original label is there twice or out of range")
    if (arrays["frequency"] < 0).any():
        raise wrong("a frequency below 0")
    propensities = arrays["inverse_propensity"]
    if not (np.isfinite(propensities) & (propensities > 0)).all():
        raise wrong("an inverse propensity that is not above 0")
    names = table["name"].to_pylist() if table["name"].null_count < table.num_rows else None
    return LabelTable(original, names, arrays["frequency"], propensities)
