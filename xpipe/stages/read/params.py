"""Section `data`: where the samples come from, and what lies there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from xpipe.engine.params import Params
from xpipe.ground import files

if TYPE_CHECKING:
    from xpipe.formats.layout import Layout


class DataParams(Params):
    """Section `data`: where the samples come from."""

    name: str | None = None  # a dataset of the catalog (eurlex-4k, ...)
    dir: str | None = None  # folder (or fsspec URL) with the files
    if_missing: Literal["error", "synthesize"] = "error"
    format: Literal["xmc", "split", "npz", "parquet-matrices", "svmlight", "parquet"] | None = (
        None  # None: by file names
    )
    header: bool = True  # False: XMC text without its first line; n_features and n_labels must be given
    index_base: Literal[0, 1] = 0
    label_base: Literal[0, 1] = 0
    split_base: Literal[0, 1] | None = None  # of index split files; never guessed
    n_features: int | None = Field(default=None, ge=1)  # for files without a header
    n_labels: int | None = Field(default=None, ge=1)
    on_bad_row: Literal["error", "drop"] = "error"
    part_rows: int = Field(default=4096, ge=1)  # rows of one stored part; parts never depend on workers or chunks
    hide_labels: float = Field(default=0.0, ge=0, lt=1)  # share of all labels taken out of every split, always the same

    @model_validator(mode="after")
    def _has_a_source(self) -> DataParams:
        if self.if_missing == "synthesize" and self.name is None:
            raise ValueError("if_missing: synthesize needs `name`, the dataset to imitate")
        if self.dir is None and self.if_missing == "error":
            raise ValueError("`dir` must be given, or `name` with if_missing: synthesize")
        return self


def has_files(params: DataParams) -> bool:
    """False only for a folder that is not there or empty: files that are not understood are an error, not missing."""
    return params.dir is not None and any(not name.startswith(".") for name in files.listing(files.local(params.dir)))


def layout_of(params: DataParams, inputs: dict) -> Layout:
    """Which files are what: those of the stand-in, where the inputs have one, else those of the user's folder."""
    from xpipe.formats.layout import recognise

    if "source" in inputs:
        return recognise(files.join(inputs["source"].folder, "source"))
    return recognise(files.local(str(params.dir)), format=params.format)
