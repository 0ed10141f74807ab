"""The options of a label tree and the ranges they must be in.

Holds no data and no work. The defaults and ranges stand here only: stage `train` takes its own from here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from typing_extensions import TypedDict

from xpipe.errors import ConfigError
from xpipe.ground.checked_json import Count

Loss = Literal["squared_hinge", "logistic"]
Calibrate = Literal["isotonic", "none"]
AT_LEAST = {"n_trees": 1, "arity": 2, "max_leaf": 1, "max_rounds": 1, "bias": 0, "threshold": 0}
ABOVE = {"cost": 0, "tolerance": 0}
BEAM = 10  # nodes per level that a search keeps, by default


@dataclass(frozen=True)
class TreeOptions:
    """Everything besides its data that decides a forest.

    Parameters
    ----------
    n_trees : int
        Trees whose probabilities are averaged.
    arity : int
        Children of a node at most; 2 is Parabel's tree.
    max_leaf : int
        Labels of a leaf at most.
    loss : {"squared_hinge", "logistic"}
        The loss of the linear classifiers.
    cost : float
        C of the linear classifiers: the weight of the loss against the squared length of the weights.
    bias : float
        The value of a feature that every row has; 0 for none.
    tolerance : float
        A classifier is done when no row violates its optimality by more than this.
    max_rounds : int
        A classifier is done after so many rounds over its rows, optimal or not; where a node has more than 75,000 rows,
        after fewer, down to 8.
    threshold : float
        Weights smaller than this become 0.
    normalize : bool
        Whether rows count as unit vectors.
    seed : int
        Decides all randomness.
    calibrate : {"isotonic", "none"}
        Whether scores become probabilities by a map that is fitted to held-out rows.

    Raises
    ------
    ConfigError
        An option is out of range; the message names the first one.

    Examples
    --------
    >>> from xpipe.trees import TreeOptions
    >>> TreeOptions(n_trees=1).arity
    64
    """

    n_trees: int = 3
    arity: int = 64
    max_leaf: int = 100
    loss: Loss = "squared_hinge"
    cost: float = 0.8
    bias: float = 1.0
    tolerance: float = 0.01
    max_rounds: int = 20
    threshold: float = 0.1
    normalize: bool = True
    seed: int = 0
    calibrate: Calibrate = "isotonic"

    def __post_init__(self) -> None:
        for name, least in AT_LEAST.items():
            value = getattr(self, name)
            if not least <= value < math.inf:
                raise ConfigError(f"`{name}` must be at least {least}, got {value}")
        for name, limit in ABOVE.items():
            value = getattr(self, name)
            if not limit < value < math.inf:
                raise ConfigError(f"`{name}` must be above {limit}, got {value}")
        for name, allowed in (("loss", get_args(Loss)), ("calibrate", get_args(Calibrate))):
            if getattr(self, name) not in allowed:
                raise ConfigError(f"`{name}` must be one of {', '.join(allowed)}, got {getattr(self, name)!r}")


class OptionValues(TypedDict, total=False):
    """The types of `TreeOptions`, as keywords of `LabelTree` and as JSON in a model's file."""

    n_trees: Count
    arity: Count
    max_leaf: Count
    loss: Loss
    cost: float
    bias: float
    tolerance: float
    max_rounds: Count
    threshold: float
    normalize: bool
    seed: int
    calibrate: Calibrate
