"""Section `train`: which models to train, trees and heads."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from xpipe.engine.params import Params
from xpipe.stages.train_heads.params import HeadParams, check_names


class TreeParams(Params):
    """`train: {tree: ...}`: a forest of label trees; `arity: 2` is Parabel's."""

    n_trees: int = Field(default=3, ge=1)
    arity: int = Field(default=64, ge=2)
    max_leaf: int = Field(default=100, ge=1)
    loss: Literal["squared_hinge", "logistic"] = "squared_hinge"
    cost: float = Field(default=0.8, gt=0)
    threshold: float = Field(default=0.1, ge=0)  # smaller weights become 0
    label_vectors: Literal["embedding", "rows"] = "embedding"  # rows: as where the pipeline embeds no labels
    weighted: Literal["auto", True, False] = "auto"  # positives count as much as their scores; auto: if posteriors


class TrainParams(Params):
    """Section `train`: which models to train; a tree where nothing else is asked for."""

    tree: TreeParams | None = None
    heads: list[HeadParams] = []

    @model_validator(mode="after")
    def _something(self) -> Self:
        check_names(self.heads)
        if self.tree is None and not self.heads:
            object.__setattr__(self, "tree", TreeParams())  # frozen for everybody else
        return self
