"""What a label tree can be asked for, and what is wrong with what was asked.

Holds no data and no work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from xpipe.errors import ConfigError

Loss = Literal["squared_hinge", "logistic"]


@dataclass(frozen=True)
class TreeOptions:
    """All that decides a forest besides its data.

    n_trees: trees whose probabilities are averaged. arity: children of a node. max_leaf: labels of a leaf at most.
    loss, cost (C), bias (value of the feature every row has; 0 for none): of the linear classifiers.
    tolerance, max_rounds: a classifier is done when no row violates its optimality by more, or after so many rounds.
    threshold: smaller weights become 0. normalize: rows count as unit vectors. seed: decides all randomness.
    Raises ConfigError, for the first option that is out of range.
    """

    n_trees: int = 3
    arity: int = 64
    max_leaf: int = 100
    loss: Loss = "squared_hinge"
    cost: float = 0.8
    bias: float = 1.0
    tolerance: float = 0.01
    max_rounds: int = 100
    threshold: float = 0.1
    normalize: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in {"n_trees": 1, "arity": 2, "max_leaf": 1, "max_rounds": 1}.items():
            if getattr(self, name) < least:
                raise ConfigError(f"`{name}` must be at least {least}, got {getattr(self, name)}")
        for name in ("cost", "tolerance"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ConfigError(f"`{name}` must be above 0, got {getattr(self, name)}")
        for name in ("bias", "threshold"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise ConfigError(f"`{name}` must be at least 0, got {getattr(self, name)}")
        if self.loss not in get_args(Loss):
            raise ConfigError(f"`loss` must be one of {', '.join(get_args(Loss))}, got {self.loss!r}")
