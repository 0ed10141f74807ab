"""The lines that run on a GPU, run here with numpy and scipy.sparse: the numbers and choices of the CPU kernels."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.eagle.strategies import planted, problems
from tests.eagle.test_embedding import dense
from xpipe.eagle import _cupy, assign, embed

DEVICE = SimpleNamespace(name="gpu", array_module=np, sparse_module=sp)


def compare(problem, **options):
    E, trace = embed(*problem, **options, trace=True)
    twin, twin_trace = embed(*problem, **options, trace=True, backend=DEVICE)
    np.testing.assert_allclose(dense(twin), dense(E), atol=1e-5)
    np.testing.assert_allclose(twin_trace, trace, atol=1e-5, rtol=1e-7)
    owners, scores = assign(*problem, E, return_scores=True)
    for embedding in (E, twin):
        twin_owners, twin_scores = assign(*problem, embedding, return_scores=True, backend=DEVICE)
        assert (owners != twin_owners).nnz == 0
        np.testing.assert_allclose(twin_scores.data, scores.data, atol=1e-5)


@given(problems(), st.sampled_from([0, 1, 5]), st.sampled_from([1.0, 0.3]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_twins_agree(problem, steps, step_size, centred):
    compare(problem, steps=steps, step_size=step_size, centred=centred)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("batch", [1 << 24, 500])
def test_twins_agree_on_planted_labels(centred, batch, monkeypatch):
    monkeypatch.setattr(_cupy, "BATCH", batch)
    compare(planted(), centred=centred)


def test_labels_and_smallest_are_heard():
    X, Y1, Y2 = planted()
    options = {"labels": np.array([4, 1]), "smallest": 1e-3}
    E, twin = embed(X, Y1, Y2, **options), embed(X, Y1, Y2, **options, backend=DEVICE)
    assert (E.indptr == twin.indptr).all()
    assert (assign(X, Y1, Y2, E, labels=options["labels"], backend=DEVICE) != assign(
        X, Y1, Y2, E, labels=options["labels"]
    )).nnz == 0  # fmt: skip
