"""Conflicts in modes topk and argmax: real, minimal, and said in words."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tests.argmaxability.oracles import all_sets, as_rows, exact_margin
from xpipe.argmaxability import Explanation, explain, unit_margins, verify
from xpipe.errors import ConfigError


def possible(W, conflict, chosen, bias, inputs):
    """Whether the chosen labels of a conflict can be ordered so, in rationals."""
    labels = conflict.labels[chosen]
    shift = None if bias is None else bias[labels]
    margin = exact_margin(W[labels], np.flatnonzero(conflict.positive[chosen]), shift, 1e4, inputs == "nonnegative")
    return margin is None or margin > 0


@pytest.mark.parametrize(("inputs", "with_bias"), [("any", False), ("any", True), ("nonnegative", False)])
def test_conflicts_are_minimal(inputs, with_bias):
    rng = np.random.default_rng(4)
    W = rng.integers(-3, 4, (7, 2)) + 0.0
    bias = rng.integers(-3, 4, 7) + 0.0 if with_bias else None
    Y = all_sets(7)
    verdicts = verify(W, Y, bias, mode="topk", inputs=inputs)
    rows = np.flatnonzero(verdicts.status == "unargmaxable")
    assert len(rows) > 20
    for row in rows[:8]:
        conflict = explain(W, Y, verdicts, row, bias)
        everything = np.arange(len(conflict.labels))
        assert conflict.positive.tolist() == [label in Y[row].indices for label in conflict.labels]
        assert not possible(W, conflict, everything, bias, inputs)
        assert conflict.minimal
        for left_out in everything:
            assert possible(W, conflict, everything[everything != left_out], bias, inputs)


def test_signs_that_inputs_of_a_relu_exclude():
    """One label whose weights are negative: no other label is needed for the conflict, but all inputs are."""
    W, Y = np.array([[-1.0, -2.0], [1.0, 0.0], [0.0, 1.0]]), as_rows([[0, 1]], 3)
    verdicts = verify(W, Y, inputs="nonnegative")
    assert verify(W, Y).argmaxable.all()
    conflict = explain(W, Y, verdicts, 0)
    assert (conflict.labels.tolist(), conflict.minimal) == ([0], True)
    assert str(conflict) == "this label cannot have this sign: +0"


def test_words():
    W = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [0.25, 0.25]])
    inside = explain(W, None, verify(W, mode="argmax"), 4, noun="document")
    assert str(inside) in (
        "document 4 can never be ahead of all of these 3: 0, 1, 2",
        "document 4 can never be ahead of all of these 3: 0, 2, 3",
    )
    Y = as_rows([[0, 1]], 5)
    across = explain(W, Y, verify(W, Y, mode="topk"), 0, names=["left", "right", "up", "down", "middle"])
    assert str(across).startswith("these 2 labels can never all be ahead of ")
    assert "left, right" in str(across)
    twins = np.array([[1.0], [1.0]])
    assert str(explain(twins, None, verify(twins, mode="argmax"), 0, names=["a", "b"])) == "a can never be ahead of b"
    many = Explanation(np.arange(24), np.arange(24) == 17, minimal=True, mode="argmax", noun="document")
    assert many.sentence(3) == "document 17 can never be ahead of all of these 23: 0, 1 and 21 more"
    with pytest.raises(ConfigError, match="is argmaxable"):
        explain(W, None, verify(W, mode="argmax"), 0)


def test_margins_at_length_one_are_those_of_the_hulls():
    """Half of the distance between the hulls: the simplex of the unit vectors has a closed form."""
    W, Y = np.eye(6), as_rows([[0], [0, 1], [0, 1, 2]], 6)
    verdicts = verify(W, Y, mode="topk", radius="exact")
    lower, upper = unit_margins(W, Y, verdicts)
    truth = [np.sqrt(1 / k + 1 / (6 - k)) / 2 for k in (1, 2, 3)]
    assert (lower <= np.array(truth) * (1 + 1e-12)).all()
    assert (upper >= np.array(truth) * (1 - 1e-12)).all()
    assert lower == pytest.approx(truth, rel=0.5)  # the point is the best one of the box, not of the ball
    with pytest.raises(ConfigError):
        unit_margins(W, Y, verify(W, sp.csr_matrix(Y)))
