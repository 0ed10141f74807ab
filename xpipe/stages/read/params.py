"""Section `data` of a pipeline file: where the samples come from, and how their files are read.

Holds no reading; defaults of options that the library has too come from there.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from xpipe.engine.params import Params
from xpipe.formats.file_names import formats
from xpipe.formats.options import IndexBase, OnBadRow, ReadOptions
from xpipe.ground import files

if TYPE_CHECKING:
    from xpipe.engine.manifest import Artifact
    from xpipe.formats.layout import Layout

    FormatName = str
else:
    FormatName = Literal[tuple(formats())]


class DataParams(Params):
    """Section `data`: where the samples come from."""

    name: str | None = None  # a dataset of the catalog (eurlex-4k, ...)
    dir: str | None = None  # folder (or fsspec URL) with the files
    if_missing: Literal["error", "synthesize"] = "error"
    format: FormatName | None = None  # None: by file names
    header: bool = ReadOptions.header  # False: XMC text without its first line; n_features and n_labels must be given
    index_base: IndexBase = ReadOptions.index_base
    label_base: IndexBase = ReadOptions.label_base
    split_base: IndexBase | None = ReadOptions.split_base  # of index split files; never guessed
    n_features: int | None = Field(default=ReadOptions.n_features, ge=1)  # for files without a header
    n_labels: int | None = Field(default=ReadOptions.n_labels, ge=1)
    on_bad_row: OnBadRow = ReadOptions.on_bad_row
    part_rows: int = Field(default=4096, ge=1)  # rows of one stored part; parts never depend on workers or chunks
    hide_labels: float = Field(default=0.0, ge=0, lt=1)  # share of all labels taken out of every split, always the same
    train: str | list[str] | None = None  # tables instead of `dir`: a file, folder, glob or URL, or several
    test: str | list[str] | None = None  # tables of the test rows, with the same columns
    dev: str | list[str] | None = None  # tables of a second held-out split
    holdout: float | None = Field(default=None, gt=0, lt=1)  # instead of `test`: a share of the rows; groups stay whole
    id: str | None = None  # column that names every row
    text: str | list[str] | None = None  # column of texts, or several that are joined
    labels: str | None = None  # column of labels: a list, or a text with `separator`
    separator: str | None = Field(default=None, min_length=1)  # stands between labels in one text
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)  # of CSV; by default a comma, of TSV a tab
    group: str | None = None  # column of the group of a row; a list for several
    group_labels: str | None = None  # table with a row per group: columns `group` and `labels`
    label_names: str | None = None  # table with the name of each label: columns `label` and `name`
    columns: dict[str, Literal["number", "category"]] | None = Field(
        default=None, description="columns that become features too, each with number or category"
    )

    @model_validator(mode="after")
    def _one_form(self) -> DataParams:
        """Either files of one folder or tables: the keys of one form only."""
        if self.train is None:
            given = [key for key in TABLE_KEYS if getattr(self, key) is not None]
            if given and (self.dir is not None or self.name is not None):
                other = "dir" if self.dir else "name"
                raise ValueError(f"`{given[0]}` is for tables: give `train` instead of `{other}`")
            if given:
                raise ValueError(f"`train` must be given: `{given[0]}` is for tables")
            return self
        problems = table_problems(self)
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @model_validator(mode="after")
    def _has_a_source(self) -> DataParams:
        if self.train is not None:
            return self
        if self.if_missing == "synthesize" and self.name is None:
            raise ValueError("if_missing: synthesize needs `name`, the dataset to imitate")
        if self.dir is None and self.if_missing == "error":
            raise ValueError("`dir` must be given, or `train` for tables, or `name` with if_missing: synthesize")
        return self

    @property
    def options(self) -> ReadOptions:
        """The options of `read_dataset` that this section sets."""
        own = type(self).model_fields
        return ReadOptions(**{each.name: getattr(self, each.name) for each in fields(ReadOptions) if each.name in own})


TABLE_KEYS = (
    "train", "test", "dev", "holdout", "id", "text", "labels", "separator", "delimiter", "group", "group_labels",
    "label_names", "columns",
)  # fmt: skip
FILE_KEYS = (
    "name", "dir", "if_missing", "format", "header", "index_base", "label_base", "split_base", "n_features",
    "n_labels", "on_bad_row", "hide_labels",
)  # fmt: skip


def table_problems(params: DataParams) -> list[str]:
    """What is wrong with a section that names tables."""
    fields = type(params).model_fields
    other = [key for key in FILE_KEYS if getattr(params, key) != fields[key].default]
    forms = "`train` names tables, `dir` a folder of files: one of them must go"
    foreign = "is for files of `dir`, not for tables: leave it out"
    problems = [forms if key == "dir" else f"`{key}` {foreign}" for key in other]
    texts = params.text if isinstance(params.text, list) else []
    problems += [f"`text` names the column {name!r} twice" for name in dict.fromkeys(texts) if texts.count(name) > 1]
    if not params.text and not params.columns:
        problems.append("`text` must name the column of texts (or `columns` those of other features)")
    if params.group_labels is not None and params.group is None:
        problems.append("`group_labels` needs `group`, the column that says which group a row is in")
    if params.labels is None and params.group_labels is None:
        problems.append("`labels` must name the column of labels, or `group` and `group_labels` give those of groups")
    if params.holdout is not None and (params.test is not None or params.dev is not None):
        problems.append("`holdout` takes rows of `train`; with `test` or `dev` leave it out")
    if [] in (params.train, params.test, params.dev):
        problems.append("`train`, `test` and `dev` must name at least one file")
    return problems


def input_paths(params: DataParams) -> dict[str, str]:
    """The folders that the section reads, by the names of the settings. The run must not write there."""
    found = {} if params.dir is None else {"data.dir": params.dir}
    for key in ("train", "test", "dev", "group_labels", "label_names"):
        value = getattr(params, key)
        for path in [value] if isinstance(value, str) else value or []:
            found[f"data.{key}" + ("" if isinstance(value, str) else f" ({path})")] = path
    return found


def is_tables(params: DataParams) -> bool:
    """Whether the section names tables, or a folder of texts by line."""
    if params.train is not None:
        return True
    if params.dir is None or not has_files(params):
        return False
    from xpipe.formats.file_names import RAW, find_formats

    folder = files.local(params.dir)
    if params.format is not None:
        return params.format == RAW
    found = files.listing(folder)
    return "dataset.json" not in found and list(find_formats(folder, found)) == [RAW]


def has_files(params: DataParams) -> bool:
    """Whether the folder has files. Files that are not understood count: they are an error, not missing."""
    return params.dir is not None and any(not name.startswith(".") for name in files.listing(files.local(params.dir)))


def layout_of(params: DataParams, inputs: dict[str, Artifact]) -> Layout:
    """Which files are what: those of the stand-in, where the inputs have one, else those of the user's folder."""
    from xpipe.formats.layout import recognise

    if "source" in inputs:
        return recognise(files.join(inputs["source"].folder, "source"))
    return recognise(files.local(str(params.dir)), format=params.format)
