from __future__ import annotations

import pickle

import pytest
import torch

from xpipe.errors import DataError
from xpipe.heads import Targets


def test_sets_of_a_batch():
    targets = Targets.of([[4, 1], [], [0]])
    assert targets.offsets.tolist() == [0, 2, 2, 3]
    assert targets.labels.tolist() == [1, 4, 0]
    assert targets.offsets.dtype == targets.labels.dtype == torch.int64
    assert len(targets) == 3
    assert targets.counts().tolist() == [2, 0, 1]
    assert targets.rows().tolist() == [0, 0, 2]
    assert targets.sums(torch.tensor([1.0, 2.0, 5.0])).tolist() == [3, 0, 5]


def test_moves_and_travels():
    targets = Targets.of([[2], [0, 1]])
    for other in (targets.to("cpu"), pickle.loads(pickle.dumps(targets))):
        assert isinstance(other, Targets)
        assert other.labels.tolist() == [2, 0, 1]
        assert len(other) == 2
        assert other.chances is None
        assert other.n_expected() == 3
    offsets, labels, chances = targets
    assert offsets is targets.offsets
    assert labels is targets.labels
    assert chances is None
    uncertain = Targets(offsets, labels, torch.tensor([0.5, 0.25, 1.0]))
    for other in (uncertain.to("cpu"), pickle.loads(pickle.dumps(uncertain))):
        assert other.chances.tolist() == [0.5, 0.25, 1.0]
        assert other.n_expected() == 1.75


def test_nothing():
    assert len(Targets.of([])) == 0
    assert Targets.of([[], []]).rows().tolist() == []


@pytest.mark.parametrize(("sets", "said"), [([[0], [3, 1, 3]], "twice"), ([[-1]], "negative")])
def test_refuses_sets_that_are_none(sets, said):
    with pytest.raises(DataError, match=said) as caught:
        Targets.of(sets)
    assert f"row {len(sets) - 1}" in str(caught.value)
