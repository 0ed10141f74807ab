"""The discriminative method, compared with dense twins and with planted owners."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tests.eagle.samples import overlapping, planted, whitened
from xpipe.eagle import impute
from xpipe.eagle._posteriors_numba import CEILING, FLOOR, RULED_OUT
from xpipe.eagle.discriminative import best_pairs, find_owners, posteriors_of
from xpipe.eagle.numbering import with_groups_in_order
from xpipe.eagle.rounds import fit_posteriors
from xpipe.errors import ConfigError, DataError
from xpipe.grouping import given_groups, random_groups, spread_labels


def dense_posteriors(X, Y1, Y2, ridge, rounds, most_members=99):
    """(posteriors, scores): the method written out, one regression without the group for each group of each label."""
    Y1, Y2 = Y1.toarray() > 0, Y2.toarray() > 0
    score_without = scorer_without(X, ridge)
    found, scores = np.zeros((Y2.shape[1], X.shape[0])), np.full((Y2.shape[1], X.shape[0]), -np.inf)
    for label in range(Y2.shape[1]):
        groups = [np.flatnonzero(Y1[:, group]) for group in np.flatnonzero(Y2[:, label])]
        q = np.zeros(X.shape[0])
        for members in groups:
            q[members] = np.maximum(q[members], 1 / max(len(members), 1))
        chances = [np.full(len(members), 1 / max(len(members), 1)) for members in groups]
        for number in range(rounds):
            before = q.copy()
            for at, members in enumerate(groups):
                if len(members) <= most_members:
                    s = score_without(members, members, before)
                else:
                    s = np.array([score_without([member], [member], before)[0] for member in members])
                chance = np.clip(s, FLOOR, CEILING)
                chances[at] = chance / (1 - np.prod(1 - chance))
                if number < rounds - 1:  # the last round changes nothing that later groups know
                    before = largest(groups, chances, len(q))
                else:
                    scores[label, members] = np.maximum(scores[label, members], s)
            q = largest(groups, chances, len(q))
        found[label] = q
    return found, np.where(np.isfinite(scores), scores, 0)


def largest(groups, chances, n_samples):
    """Per sample the largest chance of its groups."""
    q = np.zeros(n_samples)
    for members, chance in zip(groups, chances, strict=True):
        q[members] = np.maximum(q[members], chance)
    return q


def scorer_without(X, ridge):
    """A function that scores rows by a ridge regression which has never seen the rows that are left out."""
    dense = X.toarray().astype(np.float64)
    dense = np.hstack([dense - dense.mean(axis=0), np.ones((len(dense), 1))])  # the intercept has no ridge
    ridges = np.diag([ridge] * (dense.shape[1] - 1) + [0])

    def score(rows, left_out, targets):
        kept = np.setdiff1d(np.arange(len(dense)), left_out)
        return dense[rows] @ np.linalg.solve(dense[kept].T @ dense[kept] + ridges, dense[kept].T @ targets[kept])

    return score


@pytest.mark.parametrize("most_members", [99, 3])
@pytest.mark.parametrize("rounds", [1, 4])
def test_posteriors_equal_the_dense_twin(rounds, most_members):
    X, Y = planted(n_samples=120, n_features=40)
    Y1, Y2 = overlapping(Y)
    rows = whitened(X, 40, 2.0)
    posterior, score, _ = fit_posteriors(rows, Y1, Y2, rounds=rounds, most_members=most_members, threads=1)
    expected, scores = dense_posteriors(X, Y1, Y2, 2.0, rounds, most_members)
    np.testing.assert_allclose(posterior.toarray(), expected, atol=3e-3)
    np.testing.assert_allclose(score.toarray(), scores, atol=3e-3)
    assert (posterior.astype(bool) != sp.csr_matrix(spread_labels(Y1, Y2).T).astype(bool)).nnz == 0


def test_samples_of_three_groups_take_the_largest_posterior_at_every_turn():
    X, Y = planted(n_samples=120, n_features=40)
    Y1 = sp.csr_matrix(sp.hstack([random_groups(Y, 6, seed)[0] for seed in range(3)]))
    Y1, Y2, _ = with_groups_in_order(*given_groups(Y1, Y))
    posterior, score, _ = fit_posteriors(whitened(X, 40, 2.0), Y1, Y2, rounds=3, threads=1)
    expected, scores = dense_posteriors(X, Y1, Y2, 2.0, 3)
    np.testing.assert_allclose(posterior.toarray(), expected, atol=3e-3)
    np.testing.assert_allclose(score.toarray(), scores, atol=3e-3)


@pytest.mark.parametrize("most_members", [99, 3])
def test_sums_of_scores_of_groups_equal_the_dense_twin(most_members):
    """Groups with a label and groups beside them: scores of regressions that have never seen the group."""
    X, Y = planted(n_samples=120, n_features=40)
    Y1, Y2 = overlapping(Y)
    rows = whitened(X, 40, 2.0)
    beside = sp.csr_matrix((Y2.toarray() == 0) & (np.random.default_rng(0).random(Y2.shape) < 0.3), dtype=np.float32)
    powers = np.array([1.0, 2.5])
    found = fit_posteriors(
        rows, Y1, Y2, rounds=1, powers=powers, beside=beside, most_members=most_members, threads=2
    ).cells
    members, score_without = Y1.toarray() > 0, scorer_without(X, 2.0)
    spread = np.where(members.any(axis=0), 1 / np.maximum(members.sum(axis=0), 1), 0)
    for label in range(Y2.shape[1]):
        having = np.flatnonzero(Y2.toarray()[:, label])
        told = (members[:, having] * spread[having]).max(axis=1)
        for groups, starts, sums in (
            (having, found.having_starts, found.having),
            (np.flatnonzero(beside.toarray()[:, label]), found.lacking_starts, found.lacking),
        ):
            assert starts[label + 1] - starts[label] == len(groups)
            for place, group in enumerate(groups):
                own = np.flatnonzero(members[:, group])
                if not len(own):
                    continue
                if len(own) <= most_members:
                    scores = score_without(own, own, told)
                else:
                    scores = np.array([score_without([one], [one], told)[0] for one in own])
                for number, power in enumerate(powers):
                    expected = (np.maximum(scores, RULED_OUT) ** power).sum()
                    got = np.exp(sums[starts[label] + place, number])
                    assert got == pytest.approx(expected, rel=2e-3, abs=2e-3)


def test_threads_and_label_chunks_change_no_byte():
    X, Y = planted()
    Y1, Y2 = overlapping(Y)
    rows = whitened(X, 16, 1.0)
    assert whitened(X, 16, 1.0, threads=3).coordinates.tobytes() == rows.coordinates.tobytes()
    whole, scores, _ = fit_posteriors(rows, Y1, Y2, threads=1)
    threaded, threaded_scores, _ = fit_posteriors(rows, Y1, Y2, threads=3)
    assert whole.data.tobytes() == threaded.data.tobytes()
    assert scores.data.tobytes() == threaded_scores.data.tobytes()
    part = fit_posteriors(rows, Y1, sp.csr_matrix(Y2[:, [2, 7]]), threads=2).posterior
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


def test_calibrated_posteriors_equal_a_plain_twin():
    X, Y = planted(n_samples=300)
    Y1, Y2, _ = with_groups_in_order(*overlapping(Y))
    rows = whitened(X, 40, 1.0)
    fitted = fit_posteriors(rows, Y1, Y2)
    score, (offset, slope, per_group) = fitted.score, (1.5, 1.2, -0.1)
    found = posteriors_of(fitted, Y1, Y2, (offset, slope, per_group, 0.0))
    dense, expected = np.maximum(score.toarray().astype(np.float64), RULED_OUT), np.zeros(score.shape)
    members, with_label = Y1.toarray() > 0, Y2.toarray() > 0

    for group, label in zip(*np.nonzero(with_label), strict=True):
        own = np.flatnonzero(members[:, group])
        hazards = np.exp(offset) * with_label[:, label].sum() ** per_group * dense[label, own] ** slope
        posterior = np.minimum((1 - np.exp(-hazards)) / (1 - np.exp(-hazards.sum())), 1)
        expected[label, own] = np.maximum(expected[label, own], posterior)
    lines = np.repeat(np.arange(len(expected)), np.diff(score.indptr))
    np.testing.assert_allclose(found, expected[lines, score.indices], rtol=1e-4)
    posteriors = find_owners(rows, Y1, Y2, calibration=(offset, slope, per_group, 0.0), threshold=0.3).owners
    assert posteriors.nnz == ((found > 0.3) | best_pairs(score, Y1, Y2)).sum()
    assert posteriors.sum() == pytest.approx(found[(found > 0.3) | best_pairs(score, Y1, Y2)].sum(), rel=1e-5)


def test_every_group_has_one_best_pair():
    X, Y = planted(n_samples=200)
    Y1, Y2 = random_groups(Y, 5, 0)
    rows = whitened(X, 16, 1.0)
    posterior = fit_posteriors(rows, Y1, Y2).posterior
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
