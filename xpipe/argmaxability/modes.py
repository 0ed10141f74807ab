"""The three questions that `verify` answers, and what a radius and a proof are for each: sign, topk, argmax.

Holds the mathematics in words, and the checks of a question; no search and no arithmetic of proofs.

Scores are z_i = w_i.x + b_i. Inputs x lie in [-box, box]^d (`inputs="any"`), or in [0, box]^d (`"nonnegative"`: what a
ReLU, a softmax or a count gives). Below, y_i is 1 for labels of the set S and -1 for all others.

sign: is there an x with z_i > 0 for i in S, and z_j < 0 for all others?
    margin of x: min_i y_i z_i / ||w_i||. radius: the largest margin, that of the largest ball with these signs.
    point x: radius >= margin of x. Multipliers m >= 0: for every x of the box,
        radius * sum_i m_i ||w_i|| <= sum_i m_i y_i z_i <= reach(sum_i m_i y_i w_i) + sum_i m_i y_i b_i.
topk: is there an x, and a threshold t, with z_i > t for i in S and z_j < t for all others? S is then the top |S|.
    t is free: the box does not bound it. margin of x: half of the gap min_S z - max_others z, which is what the best t
    leaves on both sides. radius: the largest margin, divided by R = max_i ||w_i|| (1 where all weights are 0). Scores
    of inputs within this distance of x change by less than the margin, so all of them have S on top. Both are the same
    when all rows are moved by one vector, but for R.
    point x: radius >= margin of x / R. Multipliers m >= 0 of labels of S and of others count as shares of their side,
    p_i = m_i / sum_S m and q_j = m_j / sum_others m: two mixtures of rows. For every x of the box,
        2 R radius <= sum_S p_i z_i - sum_others q_j z_j <= reach(v) + sum_S p_i b_i - sum_others q_j b_j,
        v = sum_S p_i w_i - sum_others q_j w_j.
    Shares of each side have the sum 1 exactly, whatever rounding did to m: this is what a free t needs. v = 0 says that
    a mixture of the set's rows is a mixture of the others' rows, so no input can score all of S above all others.
    The empty set and the set of all labels are always possible: their radius is infinite.
argmax: topk of every set of one label, the same radius and proofs: is there an x with z_i > z_j for all j? Multipliers
    then say that row i is a mixture of other rows (a point of their convex hull), as far as the box can tell.

reach(v) is the largest v.x over the box: box * sum_j |v_j|; for inputs that are not negative box * sum_j max(v_j, 0).

Without bias, the margin of a set in mode topk at |x| = 1, which is what counts where queries and rows have length 1, is
half of the distance of the hulls of both sides: at least margin of x / |x| for every x, at most |v| / 2 for every v.
"""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import numpy as np
import scipy.sparse as sp

from xpipe.argmaxability.options import INPUTS, MODE, Inputs, Mode
from xpipe.errors import ConfigError, DataError


@dataclasses.dataclass(frozen=True)
class Question:
    """What is asked of every label set: the mode, and which inputs there are."""

    mode: Mode = MODE
    inputs: Inputs = INPUTS

    @property
    def of_signs(self) -> bool:
        """Whether scores are compared with 0, not with each other."""
        return self.mode == "sign"

    @property
    def floor(self) -> float:
        """The lowest input, in box units."""
        return 0.0 if self.inputs == "nonnegative" else -1.0


def is_question(mode: object, inputs: object) -> bool:
    """Whether these are a mode and a kind of inputs."""
    return isinstance(mode, str) and mode in get_args(Mode) and isinstance(inputs, str) and inputs in get_args(Inputs)


def make_question(mode: Any, inputs: Any) -> Question:
    """A checked question. Raises ConfigError."""
    for name, value, choices in (("mode", mode, get_args(Mode)), ("inputs", inputs, get_args(Inputs))):
        if not isinstance(value, str) or value not in choices:
            raise ConfigError(f"`{name}` must be {' or '.join(map(repr, choices))}, got {value!r}")
    return Question(mode, inputs)


def sets_asked(Y: Any, n_labels: int, mode: str) -> Any:
    """The sets of a question: Y, or one set for each label where Y is None and the mode is argmax."""
    if Y is not None:
        return Y
    if mode != "argmax":
        raise ConfigError("there are no label sets", why=f"mode {mode} has no sets of its own", fix="give Y")
    return sp.identity(n_labels, dtype=np.float32, format="csr")


def fits_mode(indptr: np.ndarray, mode: str) -> np.ndarray:
    """Whether each set is one that the mode can be asked about (bool): of one label in mode argmax."""
    sizes = np.diff(indptr)
    return np.asarray(sizes == 1) if mode == "argmax" else np.ones(len(sizes), dtype=bool)


def refuse_other_sizes(indptr: np.ndarray, mode: str) -> None:
    """Raise DataError where mode argmax is asked about a set that has not exactly one label."""
    wrong = np.flatnonzero(~fits_mode(indptr, mode))
    if len(wrong):
        raise DataError(
            f"{len(wrong):,} sets have not exactly one label",
            where=f"label sets, row {wrong[0]}",
            why="mode argmax asks about single labels",
            fix="leave out Y to ask about all labels, or choose mode topk",
        )
