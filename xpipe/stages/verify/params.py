"""Section `verify`: which label sets to verify, how exactly, and with which weights. Holds no verification."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from xpipe.engine.params import Params
from xpipe.ground import files

NO_BIAS = "none"  # as a bias: leave out the one that lies beside the weights


class VerifyParams(Params):
    """Section `verify`: which label sets, how exactly, and of which weights where the pipeline trains no heads."""

    split: Literal["train", "test", "dev"] = "test"
    radius: Literal["bounds", "exact"] = "bounds"
    eps: float = Field(default=1e-8, gt=0, le=1)
    box: float = Field(default=1e4, gt=0)
    explain: int = Field(default=5, ge=0)  # unargmaxable sets of each head whose conflict is told
    weights: str | None = None  # .npy, .npz or .safetensors, one row per label; instead of trained heads
    label_numbers: Literal["original", "heads"] = "original"  # of its rows: as read, or as in heads/labels.parquet
    key: str | None = None  # the array's name in that file
    bias: str | None = None  # a file of its own, the same one with `bias_key`, or `none`; default: what lies beside W
    bias_key: str | None = None

    @model_validator(mode="after")
    def _weights_first(self) -> Self:
        beside = ("label_numbers", "key", "bias", "bias_key")
        given = [f"`{name}`" for name in beside if getattr(self, name) not in (None, "original")]
        if self.weights is None and given:
            raise ValueError(f"{' and '.join(given)} must go with `weights`, which is not given")
        return self

    @property
    def as_read(self) -> bool:
        """Whether the label sets have the numbers they were read with, not those of heads/."""
        return self.weights is not None and self.label_numbers == "original"


def weight_files(params: VerifyParams) -> dict[str, str]:
    """Paths of the given weights and bias, by their role."""
    given = {"weights": params.weights, "bias": None if params.bias == NO_BIAS else params.bias}
    return {role: files.local(path) for role, path in given.items() if path is not None}
