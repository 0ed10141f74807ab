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

    @model_validator(mode="after")
    def _has_a_source(self) -> DataParams:
        if self.if_missing == "synthesize" and self.name is None:
            raise ValueError("if_missing: synthesize needs `name`, the dataset to imitate")
        if self.dir is None and self.if_missing == "error":
            raise ValueError("`dir` must be given, or `name` with if_missing: synthesize")
        return self

    @property
    def options(self) -> ReadOptions:
        """The options of `read_dataset` that this section sets."""
        own = type(self).model_fields
        return ReadOptions(**{each.name: getattr(self, each.name) for each in fields(ReadOptions) if each.name in own})


def has_files(params: DataParams) -> bool:
    """Whether the folder has files. Files that are not understood count: they are an error, not missing."""
    return params.dir is not None and any(not name.startswith(".") for name in files.listing(files.local(params.dir)))


def layout_of(params: DataParams, inputs: dict[str, Artifact]) -> Layout:
    """Which files are what: those of the stand-in, where the inputs have one, else those of the user's folder."""
    from xpipe.formats.layout import recognise

    if "source" in inputs:
        return recognise(files.join(inputs["source"].folder, "source"))
    return recognise(files.local(str(params.dir)), format=params.format)
