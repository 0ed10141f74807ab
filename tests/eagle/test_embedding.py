"""Embedding: Algorithm 1 against its plain twin; the same bytes for any threads, chunks and rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.eagle import oracles
from tests.eagle.strategies import planted, problems
from xpipe.eagle import CentredEmbedding, embed, label_threads
from xpipe.errors import ConfigError, DataError
from xpipe.grouping.groups import spread_labels


def dense(E) -> np.ndarray:
    if isinstance(E, CentredEmbedding):
        return E.sparse.toarray().astype(np.float64) - np.outer(E.offset, E.mean)
    return E.toarray().astype(np.float64)


def same_bytes(one, other) -> bool:
    if isinstance(one, CentredEmbedding):
        return same_bytes(one.sparse, other.sparse) and one.offset.tobytes() == other.offset.tobytes()
    parts = ((getattr(one, name), getattr(other, name)) for name in ("indptr", "indices", "data"))
    return one.shape == other.shape and all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in parts)


@pytest.fixture(params=["narrow", "renumbered", "direct"])
def layout(request, monkeypatch):
    """Each way in which the rows of a label can be laid out."""
    if request.param == "renumbered":
        monkeypatch.setattr(label_threads, "NARROW", 0)
    if request.param == "direct":
        monkeypatch.setattr(label_threads, "BLOCK", 20)
    return request.param


@pytest.mark.usefixtures("layout")
@given(problems(), st.sampled_from([0, 1, 2, 5, 20]), st.sampled_from([1.0, 0.3, 4.0]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_embed_is_algorithm_1(problem, steps, step_size, centred):
    E, trace = embed(*problem, steps=steps, step_size=step_size, centred=centred, trace=True, threads=1)
    expected, expected_trace = oracles.embed(*problem, steps=steps, step_size=step_size, centred=centred)
    np.testing.assert_allclose(dense(E), expected, atol=2e-6)
    np.testing.assert_allclose(trace, expected_trace, atol=1e-5)
    rows = E.sparse if centred else E
    assert rows.data.dtype == np.float32
    assert rows.has_canonical_format
    assert (rows.data != 0).all()
    again = embed(*problem, steps=steps, step_size=step_size, centred=centred, threads=1)
    assert same_bytes(again, E)  # a trace changes nothing


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_embed_on_planted_labels(seed, centred):
    problem = planted(seed=seed)
    E, trace = embed(*problem, centred=centred, trace=True)
    expected, expected_trace = oracles.embed(*problem, centred=centred)
    np.testing.assert_allclose(dense(E), expected, atol=1e-6)
    np.testing.assert_allclose(trace, expected_trace, rtol=1e-7)
    np.testing.assert_allclose(np.linalg.norm(dense(E), axis=1), 1, atol=1e-6)
    if not centred:
        assert (np.diff(trace) >= -1e-9).all()


def test_the_toy_example_of_the_paper():
    X = sp.csr_matrix(np.array([[1, 2], [-1, -2]] * 3, dtype=np.float32))  # s1, s3, s5 are x, the others -x
    Y1 = sp.csr_matrix(np.kron(np.eye(3), np.ones((2, 1))).astype(np.float32))
    Y2 = sp.csr_matrix(np.ones((3, 2), dtype=np.float32))
    assert not (spread_labels(Y1, Y2).T @ X).toarray().any()  # the baseline sees nothing
    assert embed(X, Y1, Y2, steps=0).nnz == 0
    np.testing.assert_allclose(dense(embed(X, Y1, Y2)), np.tile([1, 2] / np.sqrt(5), (2, 1)), atol=1e-7)


def test_all_ties_count():
    X = sp.csr_matrix(np.array([[3, 0, 1], [3, 1, 0], [1, 0, 0]], dtype=np.float32))
    Y1 = sp.csr_matrix(np.ones((3, 1), dtype=np.float32))
    Y2 = sp.csr_matrix(np.ones((1, 1), dtype=np.float32))
    far = dense(embed(X, Y1, Y2, steps=60))[0]  # both of the first two rows: their sum
    np.testing.assert_allclose(far, np.array([6, 1, 1]) / np.sqrt(38), atol=1e-6)


def test_zero_steps_are_the_normalised_sum():
    X, Y1, Y2 = planted()
    sums = (Y2.T @ (Y1.T @ X)).toarray().astype(np.float64)
    np.testing.assert_allclose(
        dense(embed(X, Y1, Y2, steps=0)), sums / np.linalg.norm(sums, axis=1)[:, None], atol=1e-6
    )


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("centred", [False, True])
def test_threads_do_not_show(centred):
    problem = planted()
    one, two = (embed(*problem, centred=centred, threads=threads) for threads in (1, 2))
    assert same_bytes(one, two)


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("chunks", [2, 5, 12])
def test_chunks_of_labels_and_rows_do_not_show(centred, chunks):
    """What a task does: some labels, with only the rows they need, renumbered in order."""
    X, Y1, Y2 = planted()
    whole = embed(X, Y1, Y2, centred=centred)
    mean = whole.mean if centred else None
    rows = whole.sparse if centred else whole
    for labels in np.array_split(np.random.default_rng(chunks).permutation(Y2.shape[1]), chunks):
        groups = np.flatnonzero(Y2[:, labels].sum(axis=1))
        needed = np.flatnonzero(Y1[:, groups].sum(axis=1))
        assert chunks < 12 or len(needed) < X.shape[0]
        part = embed(X[needed], Y1[needed], Y2, centred=centred, mean=mean, labels=labels)
        part_rows = part.sparse if centred else part
        assert same_bytes(part_rows[labels], rows[labels])
        assert part_rows.nnz == rows[labels].nnz  # no row for any other label
        if centred:
            assert part.offset[labels].tobytes() == whole.offset[labels].tobytes()


def test_read_only_arrays_will_do():
    X, Y1, Y2 = planted()
    expected = embed(X, Y1, Y2)
    for matrix in (X, Y1, Y2):
        matrix.data.flags.writeable = matrix.indices.flags.writeable = False
    assert same_bytes(embed(X, Y1, Y2), expected)


def test_weights_and_explicit_zeros_of_groups_mean_nothing():
    X, Y1, Y2 = planted()
    heavy = Y1 * 3.0
    extra = Y2.copy()
    extra.data[::3] = 0
    pattern = extra.copy()
    pattern.eliminate_zeros()
    assert same_bytes(embed(X, heavy, extra), embed(X, Y1, pattern))


def test_small_entries_are_left_out_on_request():
    X, Y1, Y2 = planted()
    E, short = embed(X, Y1, Y2), embed(X, Y1, Y2, smallest=1e-3)
    assert 0 < short.nnz < E.nnz
    E.data[np.abs(E.data) <= 1e-3] = 0
    E.eliminate_zeros()
    assert same_bytes(short, E)


def test_nothing_to_embed():
    for shape in ((0, 0, 0, 0), (3, 2, 0, 4), (0, 5, 2, 3), (3, 0, 2, 2)):
        n_samples, n_features, n_groups, n_labels = shape
        matrices = [sp.csr_matrix(size) for size in
                    ((n_samples, n_features), (n_samples, n_groups), (n_groups, n_labels))]  # fmt: skip
        E = embed(*matrices)
        assert E.shape == (n_labels, n_features)
        assert E.nnz == 0
        assert embed(*matrices, centred=True).sparse.nnz == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": -1}, "`steps` must be at least 0"),
        ({"step_size": 0.0}, "`step_size` must be above 0"),
        ({"step_size": float("nan")}, "`step_size` must be above 0"),
        ({"threads": 0}, "`threads` must be at least 1"),
        ({"smallest": -1.0}, "`smallest` must be from 0"),
        ({"mean": np.zeros(60)}, "`mean` is given"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ConfigError, match=message):
        embed(*planted(), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": np.array([12])}, "outside 0..11"),
        ({"labels": np.array([1, 1])}, "twice"),
        ({"labels": np.array([0.5])}, "label numbers"),
        ({"centred": True, "mean": np.zeros(3)}, "`mean` does not fit"),
        ({"centred": True, "mean": np.full(60, np.nan)}, "`mean` does not fit"),
    ],
)
def test_wrong_data(options, message):
    with pytest.raises(DataError, match=message):
        embed(*planted(), **options)


def test_matrices_that_do_not_fit():
    X, Y1, Y2 = planted()
    with pytest.raises(DataError, match="do not fit"):
        embed(X[1:], Y1, Y2)
    X.data[0] = np.nan
    with pytest.raises(DataError, match="not finite"):
        embed(X, Y1, Y2)
