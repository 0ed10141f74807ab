"""The options of every method, their defaults and their limits. Pipeline sections take their defaults from here.

Holds no data and no work, and imports nothing heavy: pipeline files are checked before numpy is loaded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal, get_args

from xpipe.errors import ConfigError

Method = Literal["auto", "baseline", "eagle0", "eagle", "centred", "discriminative"]
EmbeddingMethod = Literal["eagle0", "eagle"]
Owners = Literal["one", "posterior"]
CHOOSING: tuple[Method, ...] = ("auto", "discriminative")  # methods that make a choice before they assign

# Defaults of `rank`, the number of leading directions that `discriminative` keeps.
EXACT = 1024  # up to this many features, every direction is kept
RANK = 512  # for more features; a higher rank raises F1 by less than 0.01 (45,000 x 5,000, groups of ten) at more cost
RANK_ALIKE = 1024  # where members of groups are alike: what distinguishes them lies in weaker directions
ALIKE = 0.1  # mean correlation of two members above which they are alike; k-means groups have 0.3 to 0.5, random ones 0
MOST_FEATURES = 1 << 13  # that directions lie in: those with the most variance; rarer ones only have their own variance


@dataclass(frozen=True)
class EmbedOptions:
    """Options of Algorithm 1.

    Attributes
    ----------
    steps
        Number of steps; 0 is EAGLE-0.
    step_size
        How far a step moves the embedding.
    smallest
        Entries that are not larger than this are left out of the embedding.
    """

    steps: int = 20
    step_size: float = 1.0
    smallest: float = 0.0

    def check(self) -> None:
        """Raise ConfigError for the first option that is out of range."""
        if self.steps < 0:
            raise ConfigError(f"`steps` must be at least 0, got {self.steps}", fix="0 is EAGLE-0, the paper takes 20")
        if not (math.isfinite(self.step_size) and self.step_size > 0):
            raise ConfigError(f"`step_size` must be above 0, got {self.step_size}", fix="the paper takes 1")
        if not 0 <= self.smallest < 1:
            raise ConfigError(f"`smallest` must be from 0 to below 1, got {self.smallest}", why="rows have length 1")


@dataclass(frozen=True)
class ImputeOptions:
    """Options of `impute` and of stage assign.

    Attributes
    ----------
    method
        `auto` stands for the method that predicts the labels of held-out groups best.
    steps, step_size
        Options of the method `eagle`.
    owners, ridge, threshold, rounds, rank
        Options of the method `discriminative`. None: chosen by the labels of held-out groups.
    seed
        Decides which groups are held out and which rows the leading directions are learned from.
    """

    method: Method = "auto"
    steps: int = EmbedOptions.steps
    step_size: float = EmbedOptions.step_size
    owners: Owners = "posterior"
    ridge: float | None = None
    threshold: float | None = None
    rounds: int = 10
    rank: int | None = None
    seed: int = 0

    def check(self) -> None:
        """Raise ConfigError for the first option that is out of range.

        `steps` and `step_size` are checked where they are used, by `EmbedOptions.check`.
        """
        for name, word, known in (
            ("method", self.method, get_args(Method)),
            ("owners", self.owners, get_args(Owners)),
        ):
            if word not in known:
                raise ConfigError(f"`{name}` must be one of {', '.join(known)}, got {word!r}")
        if self.ridge is not None and not (isinstance(self.ridge, Real) and 0 <= self.ridge < math.inf):
            message = f"`ridge` must be a number from 0 on, got {self.ridge!r}"
            raise ConfigError(message, fix="leave it out: it is chosen")
        if self.threshold is not None and not (isinstance(self.threshold, Real) and 0 <= self.threshold <= 1):
            raise ConfigError(f"`threshold` must be from 0 to 1, got {self.threshold!r}", why="posteriors are chances")
        for name, count in (("rounds", self.rounds), ("rank", self.rank)):
            if count is not None and not (isinstance(count, Integral) and count >= 1):
                raise ConfigError(f"`{name}` must be a whole number from 1 on, got {count!r}")

    @property
    def chooses(self) -> bool:
        """Whether the method makes a choice before it assigns labels."""
        return self.method in CHOOSING

    def embed_options(self, method: str) -> EmbedOptions:
        """Algorithm 1 as the given method runs it: only `eagle` takes steps."""
        return EmbedOptions(self.steps if method == "eagle" else 0, self.step_size)


def usual_rank(n_features: int, likeness: float = 0.0) -> int:
    """How many leading directions are kept. likeness: the mean correlation of two members of a group."""
    if n_features <= EXACT:
        return n_features
    return RANK_ALIKE if likeness > ALIKE else RANK
