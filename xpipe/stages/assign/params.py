"""Section `assign` of a pipeline file: which samples of a group get its labels.

Holds no defaults of its own: they are those of `eagle.options`.
"""

from __future__ import annotations

from pydantic import Field

from xpipe.eagle.options import ImputeOptions, Method, Owners
from xpipe.engine.params import Params

ASSIGNED, CANDIDATES = "assigned_labels", "candidates"  # artifacts: owners, and the most likely pairs that are none


class AssignParams(Params):
    """Section `assign`: which samples of a group get its labels."""

    method: Method = ImputeOptions.method
    steps: int = Field(default=ImputeOptions.steps, ge=0)  # of eagle, as is step_size
    step_size: float = Field(default=ImputeOptions.step_size, gt=0, allow_inf_nan=False)
    owners: Owners = ImputeOptions.owners  # of discriminative, as are the next three
    ridge: float | None = Field(default=ImputeOptions.ridge, gt=0, allow_inf_nan=False)  # None: chosen
    threshold: float | None = Field(default=ImputeOptions.threshold, ge=0, le=1)  # None: chosen
    rounds: int = Field(default=ImputeOptions.rounds, ge=1)

    def options(self, seed: int) -> ImputeOptions:
        """The options as the library takes them."""
        return ImputeOptions(**self.model_dump(), seed=seed)
