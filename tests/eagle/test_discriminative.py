"""The discriminative method, compared with dense twins and with planted owners."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tests.eagle.samples import overlapping, planted, whitened
from xpipe.eagle import impute
from xpipe.eagle._posteriors_numba import CEILING, FLOOR, RULED_OUT
from xpipe.eagle.discriminative import best_pairs, calibrated_posteriors, find_owners, fit_posteriors
from xpipe.errors import ConfigError, DataError
from xpipe.grouping import random_groups, spread_labels


def dense_posteriors(X, Y1, Y2, ridge, rounds, most_members=99, feedback=()):
    """(posteriors, scores): the method written out, one regression without the group for each group of each label.

    With feedback, the posteriors are those that the last scores were learned from.
    """
    Y1, Y2 = Y1.toarray() > 0, Y2.toarray() > 0
    score_without = scorer_without(X, ridge)

    def members_posteriors(scores, calibration, n_groups):
        if calibration is None:
            chance = np.clip(scores, FLOOR, CEILING)
            return chance / (1 - np.prod(1 - chance))
        offset, slope, per_group, frailty = calibration
        hazards = np.exp(offset) * n_groups**per_group * np.maximum(scores, RULED_OUT) ** slope
        return np.minimum(chance_of(hazards, frailty) / chance_of(hazards.sum(), frailty), 1)

    found, scores = np.zeros((Y2.shape[1], X.shape[0])), np.zeros((Y2.shape[1], X.shape[0]))
    for label in range(Y2.shape[1]):
        groups = [np.flatnonzero(Y1[:, group]) for group in np.flatnonzero(Y2[:, label])]
        q = np.zeros(X.shape[0])
        for members in groups:
            q[members] = np.maximum(q[members], 1 / max(len(members), 1))
        steps = [*[None] * (rounds - 1), *feedback, "end"] if feedback else [None] * rounds
        for calibration in steps:
            before, q, highest = q, np.zeros(X.shape[0]), np.full(X.shape[0], -np.inf)
            for members in groups:
                if len(members) <= most_members:
                    s = score_without(members, members, before)
                else:
                    s = np.array([score_without([member], [member], before)[0] for member in members])
                highest[members] = np.maximum(highest[members], s)
                if calibration != "end":
                    q[members] = np.maximum(q[members], members_posteriors(s, calibration, len(groups)))
        found[label] = before if feedback else q
        scores[label] = np.where(np.isfinite(highest), highest, 0)
    return found, scores


def scorer_without(X, ridge):
    """A function that scores rows by a ridge regression which has never seen the rows that are left out."""
    dense = X.toarray().astype(np.float64)
    dense = np.hstack([dense - dense.mean(axis=0), np.ones((len(dense), 1))])  # the intercept has no ridge
    ridges = np.diag([ridge] * (dense.shape[1] - 1) + [0])

    def score(rows, left_out, targets):
        kept = np.setdiff1d(np.arange(len(dense)), left_out)
        return dense[rows] @ np.linalg.solve(dense[kept].T @ dense[kept] + ridges, dense[kept].T @ targets[kept])

    return score


def chance_of(hazard, frailty):
    return 1 - ((1 + frailty * hazard) ** (-1 / frailty) if frailty else np.exp(-hazard))


@pytest.mark.parametrize("most_members", [99, 3])
@pytest.mark.parametrize("rounds", [1, 4])
def test_posteriors_equal_the_dense_twin(rounds, most_members):
    X, Y = planted(n_samples=120, n_features=40)
    Y1, Y2 = overlapping(Y)
    rows = whitened(X, 40, 2.0)
    posterior, score = fit_posteriors(rows, Y1, Y2, rounds=rounds, most_members=most_members, threads=1)
    expected, scores = dense_posteriors(X, Y1, Y2, 2.0, rounds, most_members)
    np.testing.assert_allclose(posterior.toarray(), expected, atol=3e-3)
    np.testing.assert_allclose(score.toarray(), scores, atol=3e-3)
    assert (posterior.astype(bool) != sp.csr_matrix(spread_labels(Y1, Y2).T).astype(bool)).nnz == 0


@pytest.mark.parametrize("n_calibrations", [1, 2])
def test_calibrated_rounds_equal_the_dense_twin(n_calibrations):
    X, Y = planted(n_samples=120, n_features=40)
    Y1, Y2 = overlapping(Y)
    rows, feedback = whitened(X, 40, 2.0), [(1.0, 1.5, -0.2, 0.0), (0.5, 1.25, 0.1, 0.7)][:n_calibrations]
    told, score = fit_posteriors(rows, Y1, Y2, rounds=2, feedback=feedback, most_members=99, threads=2)
    expected, scores = dense_posteriors(X, Y1, Y2, 2.0, 2, feedback=feedback)
    np.testing.assert_allclose(told.toarray(), expected, atol=3e-3)
    np.testing.assert_allclose(score.toarray(), scores, atol=3e-3)
    first = fit_posteriors(rows, Y1, Y2, rounds=2, feedback=feedback[:-1], most_members=99)
    start = calibrated_posteriors(first.score, Y1, Y2, feedback[-1])
    resumed = fit_posteriors(rows, Y1, Y2, rounds=1, start=start, most_members=99)
    np.testing.assert_allclose(resumed.score.toarray(), scores, atol=5e-3)


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
    problems = [planted(n_samples=2000, seed=seed) for seed in range(3)]

    def f1(X, Y, method):
        found = impute(X, *random_groups(Y, size, 0), method).labels
        return 2 * found.multiply(Y).sum() / (found.sum() + Y.sum())

    methods = ("baseline", "eagle0", "eagle", "centred", "discriminative")
    values = {method: np.mean([f1(X, Y, method) for X, Y in problems]) for method in methods}
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


@pytest.mark.parametrize("frailty", [0.0, 0.7, 5.0])
def test_calibrated_posteriors_equal_a_plain_twin(frailty):
    X, Y = planted(n_samples=300)
    Y1, Y2 = overlapping(Y)
    rows = whitened(X, 40, 1.0)
    _, score = fit_posteriors(rows, Y1, Y2)
    offset, slope, per_group = 1.5, 1.2, -0.1
    found = calibrated_posteriors(score, Y1, Y2, (offset, slope, per_group, frailty))
    dense, expected = np.maximum(score.toarray().astype(np.float64), RULED_OUT), np.zeros(score.shape)
    members, with_label = Y1.toarray() > 0, Y2.toarray() > 0

    for group, label in zip(*np.nonzero(with_label), strict=True):
        own = np.flatnonzero(members[:, group])
        hazards = np.exp(offset) * with_label[:, label].sum() ** per_group * dense[label, own] ** slope
        posterior = np.minimum(chance_of(hazards, frailty) / chance_of(hazards.sum(), frailty), 1)
        expected[label, own] = np.maximum(expected[label, own], posterior)
    lines = np.repeat(np.arange(len(expected)), np.diff(score.indptr))
    np.testing.assert_allclose(found, expected[lines, score.indices], rtol=1e-4)
    posteriors = find_owners(rows, Y1, Y2, calibration=(offset, slope, per_group, frailty), threshold=0.3).owners
    assert posteriors.nnz == ((found > 0.3) | best_pairs(score, Y1, Y2)).sum()
    assert posteriors.sum() == pytest.approx(found[(found > 0.3) | best_pairs(score, Y1, Y2)].sum(), rel=1e-5)


def test_groups_that_do_not_fit_have_a_say_in_their_own_scores(monkeypatch):
    from xpipe.eagle import discriminative

    monkeypatch.setattr(discriminative, "MOST_KINSHIP", 2 * 9 + 16)
    sizes = np.array([4, 3, 0, 7, 3])
    assert discriminative.largest_kinship(sizes) in (4, 5, 6)  # no group has 5 or 6
    monkeypatch.setattr(discriminative, "MOST_KINSHIP", 10)
    assert discriminative.largest_kinship(sizes) == 2  # equal sizes are treated alike
    assert discriminative.largest_kinship(np.zeros(0, int)) == 0


def test_every_group_has_one_best_pair():
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
