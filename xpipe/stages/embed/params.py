"""Section `embed`: the label vectors of EAGLE, and what they depend on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from xpipe.engine.params import Params, canonical_params

SPLIT = "labels"  # rows of label vectors are labels


class EmbedParams(Params):
    """Section `embed`: the label vectors of EAGLE."""

    method: Literal["eagle0", "eagle"] = "eagle"
    steps: int = Field(default=20, ge=0)  # of eagle
    step_size: float = Field(default=1.0, gt=0)
    smallest: float = Field(default=0.0, ge=0, lt=1)  # entries not larger are left out; 1e-7 halves wide embeddings


def facts(params: EmbedParams) -> dict:
    """What the vectors depend on: assign compares it with its own parameters."""
    if params.method == "eagle0":
        return {**canonical_params(params, leave_out=("method", "step_size")), "steps": 0}
    return canonical_params(params, leave_out=("method",))
