"""The discriminative method against dense twins, and on planted truth."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from xpipe.eagle import impute
from xpipe.eagle._owners_numba import CEILING, FLOOR, RULED_OUT
from xpipe.eagle.discriminative import best_pairs, find_owners, fit_posteriors, judged
from xpipe.eagle.whitening import leading_directions, metric_of, whiten
from xpipe.errors import ConfigError, DataError
from xpipe.grouping import given_groups, random_groups, spread_labels


def planted(n_samples=600, n_labels=12, n_features=80, seed=0):
    """Rows that share a strong common direction, plus words of their own labels."""
    rng = np.random.default_rng(seed)
    words = rng.random((n_labels, n_features)) * (rng.random((n_labels, n_features)) < 0.1)
    Y = (rng.random((n_samples, n_labels)) < rng.uniform(0.03, 0.2, n_labels)).astype(np.float32)
    background = rng.random((n_samples, n_features)) * (rng.random((n_samples, n_features)) < 0.3)
    X = 2 * Y @ words + background + 0.5
    X[rng.random(X.shape) < 0.3] = 0
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return sp.csr_matrix(X.astype(np.float32)), sp.csr_matrix(Y)


def whitened(X, rank, ridge, threads=1):
    """Rows in the metric of a ridge that counts as it is, not in units of the rows' length."""
    spectrum = leading_directions(X, rank, threads=threads)
    return whiten(X, metric_of(spectrum, ridge / spectrum.unit), threads)


def overlapping(Y, seed=0):
    """Random groups of four, some samples in two of them, some in none, one group empty."""
    rng = np.random.default_rng(seed)
    Y1, _ = random_groups(Y, 4, seed)
    extra = sp.random(*Y1.shape, 0.005, "csr", np.float32, random_state=rng)
    Y1 = sp.lil_matrix(Y1 + extra)
    Y1[rng.integers(0, Y1.shape[0], 20)] = 0
    Y1[:, 3] = 0
    return given_groups(sp.csr_matrix(Y1), Y)


def dense_posteriors(X, Y1, Y2, ridge, rounds, most_members=99):
    """(posteriors, scores): the method written out with a dense inverse, one label after the other."""
    X, Y1, Y2 = X.toarray().astype(np.float64), Y1.toarray() > 0, Y2.toarray() > 0
    metric = X @ np.linalg.inv(X.T @ X + ridge * np.eye(X.shape[1])) @ X.T
    found, scores = np.zeros((Y2.shape[1], X.shape[0])), np.zeros((Y2.shape[1], X.shape[0]))
    for label in range(Y2.shape[1]):
        groups = [np.flatnonzero(Y1[:, group]) for group in np.flatnonzero(Y2[:, label])]
        q = np.zeros(X.shape[0])
        for members in groups:
            q[members] = np.maximum(q[members], 1 / max(len(members), 1))
        for _ in range(rounds):
            before, q, highest = q, np.zeros(X.shape[0]), np.full(X.shape[0], -np.inf)
            for members in groups:
                outside = np.tile(before, (len(members), 1))
                if len(members) <= most_members:
                    outside[:, members] = 0
                else:
                    outside[np.arange(len(members)), members] = 0
                s = (metric[members] * outside).sum(axis=1)
                chance = np.clip(s, FLOOR, CEILING)
                highest[members] = np.maximum(highest[members], s)
                q[members] = np.maximum(q[members], chance / (1 - np.prod(1 - chance)))
        found[label], scores[label] = q, np.where(np.isfinite(highest), highest, 0)
    return found, scores


def test_full_rank_is_the_exact_metric():
    X, _ = planted(n_samples=60, n_features=30)
    rows = whitened(X, 30, 0.7)
    dense = X.toarray().astype(np.float64)
    exact = dense @ np.linalg.inv(dense.T @ dense + 0.7 * np.eye(30)) @ dense.T
    scaled = sp.csr_matrix((rows.values, rows.indices, rows.indptr), shape=X.shape).toarray()
    np.testing.assert_allclose(scaled @ scaled.T - rows.coordinates @ rows.coordinates.T, exact, atol=2e-5)
    np.testing.assert_allclose(rows.influence, np.diag(exact), atol=2e-5)


def test_leading_directions_are_the_leading_ones():
    X, _ = planted(n_features=120)
    found = leading_directions(X, 8)
    values, vectors = np.linalg.eigh((X.T @ X).toarray().astype(np.float64))
    np.testing.assert_allclose(found.values[:4], values[::-1][:4], rtol=0.02)
    assert abs(found.vectors[:, 0] @ vectors[:, -1]) > 0.999
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(8), atol=1e-4)
    again = leading_directions(X, 8)
    assert found.vectors.tobytes() == again.vectors.tobytes()


@pytest.mark.parametrize("most_members", [99, 3])
@pytest.mark.parametrize("rounds", [1, 4])
def test_posteriors_equal_the_dense_twin(rounds, most_members):
    X, Y = planted(n_samples=120, n_features=40)
    Y1, Y2 = overlapping(Y)
    rows = whitened(X, 40, 0.5)
    posterior, score = fit_posteriors(rows, Y1, Y2, rounds=rounds, most_members=most_members, threads=1)
    expected, scores = dense_posteriors(X, Y1, Y2, 0.5, rounds, most_members)
    np.testing.assert_allclose(posterior.toarray(), expected, atol=3e-3)
    np.testing.assert_allclose(score.toarray(), scores, atol=3e-3)
    assert (posterior.astype(bool) != sp.csr_matrix(spread_labels(Y1, Y2).T).astype(bool)).nnz == 0


@pytest.mark.parametrize("kept", [1, 5000])
def test_labels_too_large_to_be_copied_get_the_same_bytes(monkeypatch, kept):
    from xpipe.eagle import discriminative

    X, Y = planted(n_samples=3000, n_labels=3, n_features=40)
    Y1, Y2 = random_groups(Y, 10, 0)
    rows = whitened(X, 40, 0.5)
    copied = fit_posteriors(rows, Y1, Y2)
    monkeypatch.setattr(discriminative, "MOST_KEPT", kept)
    read_in_place = fit_posteriors(rows, Y1, Y2)
    for one, other in zip(copied, read_in_place, strict=True):
        assert one.data.tobytes() == other.data.tobytes()


def test_threads_and_label_chunks_change_no_byte():
    X, Y = planted()
    Y1, Y2 = overlapping(Y)
    rows = whitened(X, 16, 1.0)
    assert whitened(X, 16, 1.0, threads=3).coordinates.tobytes() == rows.coordinates.tobytes()
    whole, scores = fit_posteriors(rows, Y1, Y2, threads=1)
    threaded, threaded_scores = fit_posteriors(rows, Y1, Y2, threads=3)
    assert whole.data.tobytes() == threaded.data.tobytes()
    assert scores.data.tobytes() == threaded_scores.data.tobytes()
    part, _ = fit_posteriors(rows, Y1, sp.csr_matrix(Y2[:, [2, 7]]), threads=2)
    assert part.data.tobytes() == whole[[2, 7]].data.tobytes()


@pytest.mark.parametrize("size", [4, 10])
def test_planted_owners_are_found(size):
    X, Y = planted(n_samples=2000)
    Y1, Y2 = random_groups(Y, size, 0)

    def f1(method):
        found = impute(X, Y1, Y2, method).labels
        return 2 * found.multiply(Y).sum() / (found.sum() + Y.sum())

    values = {method: f1(method) for method in ("baseline", "eagle0", "eagle", "centred", "discriminative")}
    assert values["discriminative"] == max(values.values())
    assert values["discriminative"] > values["baseline"] + 0.1
    assert values["centred"] > values["eagle0"]


@pytest.mark.parametrize("method", ["auto", "baseline", "eagle0", "eagle", "centred", "discriminative"])
def test_every_method_keeps_the_contract(method):
    X, Y = planted(n_samples=300)
    Y1, Y2 = overlapping(Y)
    result = impute(X, Y1, Y2, method, seed=3)
    allowed = spread_labels(Y1, Y2)
    assert result.labels.shape == Y.shape
    assert set(np.unique(result.labels.data)) <= {1.0}
    assert (result.labels > allowed).nnz == 0
    assert result.scores.nnz == result.labels.nnz
    assert np.array_equal(result.scores.indices, result.labels.indices)
    owned = (Y1.T @ result.labels).toarray() > 0
    has_samples = Y1.getnnz(axis=0) > 0
    assert owned[has_samples][Y2.toarray()[has_samples] > 0].all()
    again = impute(X, Y1, Y2, method, seed=3, threads=1)
    assert again.labels.indices.tobytes() == result.labels.indices.tobytes()
    assert again.scores.data.tobytes() == result.scores.data.tobytes()


def test_one_owner_and_given_choices():
    X, Y = planted(n_samples=300)
    Y1, Y2 = random_groups(Y, 5, 0)
    one = impute(X, Y1, Y2, "discriminative", owners="one")
    assert one.labels.nnz == Y2.nnz
    given = impute(X, Y1, Y2, "discriminative", ridge=2.0, threshold=0.25)
    assert given.trace["choice"]["ridge"] == 2.0
    assert list(given.trace["choice"]["tried"]["ridge"]) == ["2"]
    assert (given.scores.data > 0.25).sum() + Y2.nnz >= given.labels.nnz > one.labels.nnz
    everyone = impute(X, Y1, Y2, "discriminative", ridge=2.0, threshold=0.0)
    assert everyone.labels.nnz == spread_labels(Y1, Y2).nnz


def test_calibrated_posteriors_equal_a_plain_twin():
    X, Y = planted(n_samples=300)
    Y1, Y2 = overlapping(Y)
    rows = whitened(X, 40, 1.0)
    _, score = fit_posteriors(rows, Y1, Y2)
    offset, slope, per_group, power = 1.5, 1.2, -0.1, 3
    found = judged(score, Y1, Y2, (offset, slope, per_group, power))
    dense, expected = np.maximum(score.toarray().astype(np.float64), RULED_OUT), np.zeros(score.shape)
    members, with_label = Y1.toarray() > 0, Y2.toarray() > 0

    def chance(s, label):
        return 1 - np.exp(-np.exp(offset) * with_label[:, label].sum() ** per_group * s**slope)

    for group, label in zip(*np.nonzero(with_label), strict=True):
        own = np.flatnonzero(members[:, group])
        s = dense[label, own]
        posterior = np.minimum(chance(s, label) / chance((s**power).sum() ** (1 / power), label), 1)
        expected[label, own] = np.maximum(expected[label, own], posterior)
    lines = np.repeat(np.arange(len(expected)), np.diff(score.indptr))
    np.testing.assert_allclose(found, expected[lines, score.indices], rtol=1e-4)
    labels, posteriors = find_owners(rows, Y1, Y2, calibration=(offset, slope, per_group, power), threshold=0.3)
    assert labels.nnz == ((found > 0.3) | best_pairs(score, Y1, Y2)).sum()
    assert posteriors.sum() == pytest.approx(found[(found > 0.3) | best_pairs(score, Y1, Y2)].sum(), rel=1e-5)


def test_groups_that_do_not_fit_vouch_for_themselves(monkeypatch):
    from xpipe.eagle import discriminative

    monkeypatch.setattr(discriminative, "MOST_KINSHIP", 2 * 9 + 16)
    sizes = np.array([4, 3, 0, 7, 3])
    assert discriminative.most_members_left_out(sizes) in (4, 5, 6)  # no group has 5 or 6
    monkeypatch.setattr(discriminative, "MOST_KINSHIP", 10)
    assert discriminative.most_members_left_out(sizes) == 2  # equal sizes are treated alike
    assert discriminative.most_members_left_out(np.zeros(0, int)) == 0


def test_best_pairs_one_a_group():
    X, Y = planted(n_samples=200)
    Y1, Y2 = random_groups(Y, 5, 0)
    rows = whitened(X, 16, 1.0)
    posterior, _ = fit_posteriors(rows, Y1, Y2)
    best = best_pairs(posterior, Y1, Y2)
    assert best.sum() == Y2.nnz
    dense, Y1d = posterior.toarray(), Y1.toarray() > 0
    for group, label in zip(*Y2.nonzero(), strict=True):
        members = np.flatnonzero(Y1d[:, group])
        winner = members[np.argmax(dense[label, members])]
        places = np.arange(posterior.indptr[label], posterior.indptr[label + 1])
        assert best[places[np.searchsorted(posterior.indices[places], winner)]]


def test_nothing_to_impute_and_wrong_words():
    X, Y = planted(n_samples=20)
    Y1, Y2 = random_groups(Y, 4, 0)
    nothing = impute(X, Y1, sp.csr_matrix(Y2.shape, dtype=np.float32))
    assert nothing.labels.nnz == 0
    assert nothing.labels.shape == Y.shape
    few = impute(X[:2], *random_groups(Y[:2], 2, 0))  # a single group: nothing can be held out
    assert few.labels.shape == (2, Y.shape[1])
    with pytest.raises(ConfigError, match="`method` must be one of auto"):
        impute(X, Y1, Y2, "eagel")
    with pytest.raises(ConfigError, match="`owners` must be one of"):
        impute(X, Y1, Y2, owners="two")
    with pytest.raises(DataError, match="do not fit"):
        impute(X[:10], Y1, Y2)
