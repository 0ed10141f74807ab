"""The GPU code, run with a stand-in for cupy, gives the numbers and choices of the CPU kernels."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.array_module import array_module
from tests.eagle.strategies import planted, problems
from tests.eagle.test_embedding import dense
from xpipe.eagle import _cupy, assign, embed
from xpipe.eagle._segments_cupy import Segments

DEVICE = SimpleNamespace(name="gpu", array_module=array_module)


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


@given(st.lists(st.integers(0, 9), max_size=12), st.data())
@settings(deadline=None)
def test_segments_are_reduced_exactly(lengths, data):
    number = st.floats(-1, 1).map(lambda value: 1 + value * 1e-9)  # float32 would not tell them apart
    values = np.array(data.draw(st.lists(number, min_size=sum(lengths), max_size=sum(lengths))))
    segments = Segments(array_module, array_module.asarray(np.array(lengths, dtype=np.int64)))
    on_device = array_module.asarray(values)
    parts = np.split(values, np.cumsum(lengths)[:-1]) if lengths else []
    assert segments.maximum(on_device).get().tolist() == [part.max(initial=-np.inf) for part in parts]
    places = array_module.arange(len(values))
    firsts = np.cumsum(lengths) - lengths if lengths else np.zeros(0, int)
    expected = [start if length else 99 for start, length in zip(firsts, lengths, strict=True)]
    assert segments.minimum(places, 99).get().tolist() == expected
    np.testing.assert_allclose(segments.add(on_device).get(), [part.sum() for part in parts], rtol=1e-15)
    assert (on_device.get() == values).all()


def test_the_device_gives_the_same_bytes_every_time():
    X, Y1, Y2 = planted()
    X.data += np.random.default_rng(0).random(X.nnz).astype(np.float32)
    (one, trace), (other, other_trace) = (embed(X, Y1, Y2, trace=True, backend=DEVICE) for _ in range(2))
    assert one.data.tobytes() == other.data.tobytes()
    assert trace.tobytes() == other_trace.tobytes()


def test_near_ties_are_told_apart_as_on_the_cpu():
    """Scores that differ by 1e-8: float32 would call them equal, the rule for ties (1e-9) does not."""
    angles = np.arange(40)[:, None] * 1e-4
    rows = np.concatenate([np.cos(angles), np.sin(angles), np.ones((40, 1))], axis=1)
    X = sp.csr_matrix(rows.astype(np.float32))
    Y1, Y2 = sp.csr_matrix(np.repeat(np.eye(4, dtype=np.float32), 10, axis=0)), sp.csr_matrix(np.ones((4, 2), "f4"))
    compare((X, Y1, Y2), steps=5)
