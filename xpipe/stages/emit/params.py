"""Section `emit` of a pipeline file: which datasets are written, in which formats. Holds no work."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from xpipe.engine.params import Params
from xpipe.heads.options import TrainOptions
from xpipe.metrics.propensity_constants import OTHER


class CardParams(Params):
    """Key `card` of section `emit`: what only the owner of the data can tell, for README.md and croissant.json.

    The fields are those of `formats.dataset_story.Told`.
    """

    title: str | None = None  # of the dataset
    description: str | None = None  # what the samples and the labels are
    license: str | None = None  # its name or the address of its text
    url: str | None = None  # the page of the dataset
    creator: str | None = None  # who made the data
    citation: str | None = None  # how to cite it, in BibTeX
    version: str | None = None  # MAJOR.MINOR.PATCH
    published: str | None = Field(default=None, pattern=r"^\d{4}-\d{2}-\d{2}$")  # YYYY-MM-DD
    collection: str | None = None  # how, where and when the data was collected
    biases: str | None = None  # which biases it is known to have
    limitations: str | None = None  # what it must not be used for
    uses: str | None = None  # what it is meant for
    social_impact: str | None = None  # good and bad effects of its use
    personal_information: str | None = None  # whether it has any, and which
    maintenance: str | None = None  # who keeps it, and for how long


class EmitParams(Params):
    """Section `emit`: which datasets to write."""

    datasets: list[Literal["tree", "heads"]] = ["tree", "heads"]
    formats: list[Literal["parquet", "xmc", "npz", "svmlight"]] = ["parquet"]
    label_order: Literal["original", "cooccurrence"] = "original"  # of heads/; cooccurrence has few sign changes
    rows_without_labels: Literal["keep", "drop"] = "keep"
    row_group: int = Field(default=TrainOptions.batch_size, ge=1)  # rows of a Parquet row group in heads/
    propensity_a: float = Field(default=OTHER.a, gt=0)
    propensity_b: float = Field(default=OTHER.b, gt=0)
    card: CardParams | None = None  # what only the owner of the data can tell

    @field_validator("datasets", "formats")
    @classmethod
    def _no_twins(cls, names: list[str]) -> list[str]:
        if len(set(names)) < len(names):
            raise ValueError("has a name twice")
        return names

    @field_validator("formats")
    @classmethod
    def _some_format(cls, names: list[str]) -> list[str]:
        if not names:
            raise ValueError("must name at least one of parquet, xmc, npz, svmlight")
        return names

    @model_validator(mode="after")
    def _some_dataset(self) -> Self:
        if "parquet" in self.formats and not self.datasets:
            raise ValueError("`datasets` must name tree, heads or both where `formats` has parquet")
        return self

    @property
    def drops_rows(self) -> bool:
        """Whether rows without labels are left out."""
        return self.rows_without_labels == "drop"

    @property
    def other_formats(self) -> list[str]:
        """The formats besides Parquet, each of which gets a folder of its own."""
        return [name for name in self.formats if name != "parquet"]

    def writes_dataset(self, name: str) -> bool:
        """Whether the folder tree/ or heads/ is written. Both are Parquet."""
        return name in self.datasets and "parquet" in self.formats

    def reorders_labels(self, dataset: str) -> bool:
        """Whether the labels of tree/ or heads/ are in another order than the original one."""
        return dataset == "heads" and self.label_order != "original"
