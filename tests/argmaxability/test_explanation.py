"""Conflicts: real, minimal, small, and said in words."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tests.argmaxability.oracles import all_sets, argmaxable_sets, as_rows
from xpipe.argmaxability import explain, verify
from xpipe.argmaxability import explanation as explaining
from xpipe.errors import ConfigError


def assert_minimal(W, conflict, bias=None):
    """The labels' signs cannot be had together, but without any one of them they can: by enumeration."""

    def possible(chosen):
        positive = tuple(np.flatnonzero(conflict.positive[chosen]).tolist())
        labels = conflict.labels[chosen]
        return positive in argmaxable_sets(W[labels], None if bias is None else bias[labels])

    everything = np.arange(len(conflict.labels))
    assert not possible(everything)
    for left_out in everything:
        assert possible(everything[everything != left_out])
    assert conflict.minimal


@pytest.mark.parametrize(("n", "d"), [(6, 2), (8, 3), (7, 1)])
@pytest.mark.parametrize("kind", ["gaussian", "whole numbers", "bias"])
def test_conflicts_are_minimal(kind, n, d):
    rng = np.random.default_rng(n)
    W = rng.integers(-2, 3, (n, d)) + 0.0 if kind == "whole numbers" else rng.standard_normal((n, d))
    W[~W.any(axis=1)] = 1
    bias = rng.standard_normal(n) if kind == "bias" else None
    Y = all_sets(n)
    verdicts = verify(W, Y, bias)
    rows = np.flatnonzero(verdicts.status == "unargmaxable")
    assert len(rows)
    for row in rows[:25]:
        conflict = explain(W, Y, verdicts, row, bias)
        assert 2 <= len(conflict.labels) <= d + 1 + (bias is not None)
        assert conflict.positive.tolist() == [label in Y[row].indices for label in conflict.labels]
        assert_minimal(W, conflict, bias)


@pytest.mark.parametrize("blind", [False, True])
def test_a_conflict_of_two_is_found_behind_many(monkeypatch, blind):
    """Two equal labels with different signs, hidden in multipliers that use more labels than needed."""
    rng = np.random.default_rng(0)
    W = rng.standard_normal((30, 4))
    W[17] = 2 * W[5]
    Y = as_rows([[5, 8, 9]], 30)
    verdicts = verify(W, Y)
    if blind:  # the way of asking `verify` for each label, which heads with a bias take
        monkeypatch.setattr(explaining, "_needed_labels", lambda rows, *_: np.zeros(len(rows), dtype=bool))
    conflict = explain(W, Y, verdicts, 0, names=[f"name {i}" for i in range(30)])
    assert conflict.minimal
    assert len(conflict.labels) <= 5
    assert_minimal(W, conflict)
    wide = np.array([5, 17, *conflict.labels[~np.isin(conflict.labels, [5, 17])]])
    padded = verify(W[wide], sp.csr_matrix(np.isin(wide, [5, 8, 9])[None].astype(np.float32)))
    assert padded.status[0] == "unargmaxable"


def test_a_conflict_that_can_shrink_is_shrunk():
    """Multipliers on two conflicts at once: only one of them is left."""
    import dataclasses

    W = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    Y = as_rows([[0, 2]], 4)
    verdicts = dataclasses.replace(
        verify(W, Y),
        multiplier_ptr=np.array([0, 4]),
        multiplier_labels=np.arange(4, dtype=np.int32),
        multipliers=np.array([1.0, 1.0, 2.0, 2.0]),
    )
    conflict = explain(W, Y, verdicts, 0)
    assert conflict.labels.tolist() in ([0, 1], [2, 3])
    assert conflict.minimal


def test_words():
    W = np.array([[1.0, 2.0], [2.0, 4.0], [0.0, 1.0], [0.0, 0.0]])
    Y = as_rows([[0], [0, 1]], 4)
    conflict = explain(W, Y, verify(W, Y), 0, names=["fever", "high fever", "cough", "nothing"])
    assert str(conflict) == "this label cannot have this sign: -nothing"
    Y = as_rows([[0]], 3)
    conflict = explain(W[:3], Y, verify(W[:3], Y), 0, names=["fever", "high fever", "cough"])
    assert str(conflict) == "these 2 labels cannot have these signs together: +fever, -high fever"
    assert conflict.sentence(shown=1) == "these 2 labels cannot have these signs together: +fever, and 1 more"


def test_only_unargmaxable_sets_are_explained():
    W = np.eye(2)
    Y = as_rows([[0]], 2)
    with pytest.raises(ConfigError, match="label set 0 is argmaxable"):
        explain(W, Y, verify(W, Y), 0)


def test_conflicts_of_a_wide_head():
    rng = np.random.default_rng(2)
    W = rng.standard_normal((500, 20))
    Y = as_rows([rng.choice(500, 6, replace=False) for _ in range(3)], 500)
    verdicts = verify(W, Y)
    assert (verdicts.status == "unargmaxable").all()
    for row in range(3):
        conflict = explain(W, Y, verdicts, row)
        assert conflict.minimal
        assert len(conflict.labels) == 21
        own = sp.csr_matrix(conflict.positive[None].astype(np.float32))
        assert verify(W[conflict.labels], own).status[0] == "unargmaxable"
        for left_out in range(21):
            rest = np.arange(21) != left_out
            assert verify(W[conflict.labels[rest]], own[:, rest]).argmaxable[0]
