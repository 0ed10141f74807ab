"""Section `evaluate`: on which split and at which ranks models are evaluated.

Holds no evaluation. Its defaults are those of `metrics.options`, `metrics.propensity_constants` and `trees.options`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from xpipe.engine.params import Params
from xpipe.metrics.options import BINS, CALIBRATION_K, RESAMPLES, K
from xpipe.metrics.propensity_constants import OTHER
from xpipe.trees.options import BEAM


class EvaluateParams(Params):
    """Section `evaluate`: on which split, at which ranks."""

    split: Literal["test", "dev"] = "test"
    k: int = Field(default=K, ge=1)
    beam: int = Field(default=BEAM, ge=1)
    remove_empty: bool = False  # leave out rows without true labels, instead of counting them as misses
    propensity_a: float = Field(default=OTHER.a, gt=0)
    propensity_b: float = Field(default=OTHER.b, gt=0)
    resamples: int = Field(default=RESAMPLES, ge=0)  # for the intervals
    calibration_k: int = Field(default=CALIBRATION_K, ge=1)  # most probable labels of each row that are assessed
    calibration_bins: int = Field(default=BINS, ge=1)
