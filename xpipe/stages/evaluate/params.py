"""Section `evaluate`. Holds no evaluation."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from xpipe.engine.params import Params


class EvaluateParams(Params):
    """Section `evaluate`: on which split, at which ranks."""

    split: Literal["test", "dev"] = "test"
    k: int = Field(default=5, ge=1)
    beam: int = Field(default=10, ge=1)
    remove_empty: bool = False  # leave rows without true labels out, instead of counting them as misses
    propensity_a: float = Field(default=0.55, gt=0)
    propensity_b: float = Field(default=1.5, gt=0)
    resamples: int = Field(default=1000, ge=0)  # for the intervals
    calibration_k: int = Field(default=4, ge=1)  # most probable labels of a row whose confidences are judged
    calibration_bins: int = Field(default=10, ge=1)
