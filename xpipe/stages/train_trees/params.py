"""Section `train`: which models to train, trees and heads.

Holds no training.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from xpipe.engine.params import Params
from xpipe.stages.train_heads.params import HeadParams, check_names
from xpipe.trees.options import ABOVE, AT_LEAST, Calibrate, Loss, TreeOptions


class TreeParams(Params):
    """`train: {tree: ...}`: a forest of label trees. Defaults and ranges are those of `TreeOptions`.

    label_vectors: what labels are clustered by; `embedding` is that of stage embed where the pipeline has it, else the
    sum of their rows, as with `rows`. weighted: whether the scores of positives are chances, so that uncertain ones
    count less, and as negatives too; `auto` if these are posteriors. calibrate: `none` leaves the scores of the trees
    as they are.
    """

    n_trees: int = Field(default=TreeOptions.n_trees, ge=AT_LEAST["n_trees"])
    arity: int = Field(default=TreeOptions.arity, ge=AT_LEAST["arity"])
    max_leaf: int = Field(default=TreeOptions.max_leaf, ge=AT_LEAST["max_leaf"])
    loss: Loss = TreeOptions.loss
    cost: float = Field(default=TreeOptions.cost, gt=ABOVE["cost"])
    threshold: float = Field(default=TreeOptions.threshold, ge=AT_LEAST["threshold"])
    calibrate: Calibrate = TreeOptions.calibrate
    label_vectors: Literal["embedding", "rows"] = "embedding"
    weighted: Literal["auto", True, False] = "auto"


class TrainParams(Params):
    """Section `train`: which models to train; a tree if nothing else is asked for."""

    tree: TreeParams | None = None
    heads: list[HeadParams] = []

    @model_validator(mode="after")
    def _something(self) -> Self:
        """Train a tree if neither a tree nor a head is asked for."""
        check_names(self.heads)
        if self.tree is None and not self.heads:
            object.__setattr__(self, "tree", TreeParams())  # frozen for everybody else
        return self
