"""Section `embed` of a pipeline file: options of the label embedding, and what the embedding depends on.

Holds no defaults of its own: they are those of `eagle.options`.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from xpipe.eagle.options import EmbeddingMethod, EmbedOptions
from xpipe.engine.params import Params, canonical_params

SPLIT = "labels"  # the rows of the stored matrix are labels


class EmbedParams(Params):
    """Section `embed`: the label embedding of EAGLE."""

    method: EmbeddingMethod = "eagle"
    steps: int = Field(default=EmbedOptions.steps, ge=0)  # of eagle
    step_size: float = Field(default=EmbedOptions.step_size, gt=0)
    smallest: float = Field(default=EmbedOptions.smallest, ge=0, lt=1)  # 1e-7 halves wide embeddings

    def options(self) -> EmbedOptions:
        """The options as the library takes them: eagle0 takes no steps."""
        if self.method == "eagle0":
            return EmbedOptions(steps=0, smallest=self.smallest)
        return EmbedOptions(self.steps, self.step_size, self.smallest)


def embedding_identity(params: EmbedParams) -> dict[str, Any]:
    """What the embedding depends on. Stage assign compares this with its own parameters."""
    if params.method == "eagle0":
        return {**canonical_params(params, leave_out=("method", "step_size")), "steps": 0}
    return canonical_params(params, leave_out=("method",))
