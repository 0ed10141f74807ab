"""Section `assign`: which samples of a group get its labels."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from xpipe.engine.params import Params


class AssignParams(Params):
    """Section `assign`: which samples of a group get its labels."""

    method: Literal["auto", "baseline", "eagle0", "eagle", "centred", "discriminative"] = "auto"
    steps: int = Field(default=20, ge=0)  # of eagle
    step_size: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    owners: Literal["one", "posterior"] = "posterior"  # of discriminative, as are the next three
    ridge: float | None = Field(
        default=None, gt=0, allow_inf_nan=False
    )  # chosen where it is not given, as is the threshold
    threshold: float | None = Field(default=None, ge=0, le=1)
    rounds: int = Field(default=10, ge=1)
