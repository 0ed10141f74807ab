"""Section `verify`: which label sets to verify, how exactly, and with which weights.

Holds no verification. Its defaults are those of `argmaxability.options`.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from xpipe.argmaxability.options import BOX, EPS, EXPLAINED, INPUTS, MODE, NO_BIAS, RADIUS, Inputs, Mode, Radius
from xpipe.engine.params import Params
from xpipe.ground import files
from xpipe.heads.registry import HEADS


class VerifyParams(Params):
    """Section `verify`: which label sets, how exactly, and which weights where the pipeline trains no heads."""

    split: Literal["train", "test", "dev"] = "test"
    radius: Radius = RADIUS
    eps: float = Field(default=EPS, gt=0, le=1)
    box: float = Field(default=BOX, gt=0)
    explain: int = Field(default=EXPLAINED, ge=0)  # unargmaxable sets of each head that are explained
    weights: str | None = None  # .npy, .npz or .safetensors, one row per label; instead of trained heads
    label_numbers: Literal["original", "heads"] = "original"  # of its rows: as read, or as in heads/labels.parquet
    key: str | None = None  # the name of the array in that file
    bias: str | None = None  # a file, or `none`; by default the bias that lies beside the weights
    bias_key: str | None = None  # the name of the bias in its file
    mode: Mode | None = None  # by default that of each head: topk for softmax and LML, else sign
    inputs: Inputs | None = None  # by default any; nonnegative: behind a ReLU

    @model_validator(mode="after")
    def _weights_first(self) -> Self:
        beside = ("label_numbers", "key", "bias", "bias_key")
        given = [f"`{name}`" for name in beside if getattr(self, name) not in (None, "original")]
        if self.weights is None and given:
            raise ValueError(f"{' and '.join(given)} must go with `weights`, which is not given")
        return self

    @property
    def inputs_asked(self) -> Inputs:
        """Which inputs there are."""
        return self.inputs or INPUTS

    def mode_of(self, layer: str | None) -> Mode:
        """The mode for a head of this layer; None: weights that are given."""
        if self.mode is not None:
            return self.mode
        return HEADS[layer].mode if layer in HEADS else MODE

    @property
    def as_read(self) -> bool:
        """Whether labels have the numbers they were read with, not those of the heads/ dataset."""
        return self.weights is not None and self.label_numbers == "original"


def weight_files(params: VerifyParams) -> dict[str, str]:
    """Paths of the given weights and bias, by their role."""
    given = {"weights": params.weights, "bias": None if params.bias == NO_BIAS else params.bias}
    return {role: files.local(path) for role, path in given.items() if path is not None}
