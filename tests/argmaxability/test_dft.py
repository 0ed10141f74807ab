"""DFT heads: the matrix, sign changes, and proofs in product form."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from tests.argmaxability.oracles import all_sets, argmaxable_sets, as_rows
from xpipe.argmaxability import check, dft_argmaxable, dft_certificate, dft_matrix, find_dft_k, sign_changes, verify
from xpipe.argmaxability.certificate import row_norms
from xpipe.errors import ConfigError, DataError


@pytest.mark.parametrize(("n", "k"), [(1, 0), (3, 1), (4, 1), (9, 4), (10, 4), (50, 7), (51, 25)])
def test_the_matrix(n, k):
    W = dft_matrix(n, k)
    assert W.shape == (n, 2 * k + 1)
    np.testing.assert_allclose(W.T @ W, np.eye(2 * k + 1), atol=1e-13)
    np.testing.assert_allclose(np.linalg.norm(W, axis=1), np.sqrt((2 * k + 1) / n))
    i, j = n - 1, k
    t = 2 * np.pi * i / n
    if k:
        np.testing.assert_allclose(
            W[i, 2 * j - 1 :], np.sqrt(2 / n) * np.array([np.cos(j * t), np.sin(j * t)]), atol=1e-12
        )


@pytest.mark.parametrize(("n", "k"), [(3, 1), (5, 1), (6, 1), (7, 2), (8, 2), (7, 3)])
def test_exactly_the_sets_with_at_most_2k_changes_are_argmaxable(n, k):
    Y = all_sets(n)
    expected = dft_argmaxable(Y, k)
    W = dft_matrix(n, k)
    assert {tuple(Y[row].indices.tolist()) for row in np.flatnonzero(expected)} == argmaxable_sets(W)
    verdicts = verify(W, Y)
    assert (verdicts.argmaxable == expected).all()
    assert check(W, Y, verdicts).all()
    at_most_k = np.diff(Y.indptr) <= k
    assert expected[at_most_k].all()


def test_the_k_of_a_head_is_found_in_its_weights():
    rng = np.random.default_rng(0)
    for n, k, slack in ((9, 0, 0), (9, 2, 0), (9, 4, 0), (30, 3, 5), (30, 3, 1), (200, 20, 16)):
        W = np.hstack([dft_matrix(n, k), rng.standard_normal((n, slack))])
        assert find_dft_k(W) == k
        assert find_dft_k(W.astype(np.float32)) == k
    assert find_dft_k(rng.standard_normal((30, 7))) is None
    assert find_dft_k(2 * dft_matrix(30, 3)) is None


@pytest.mark.parametrize(("n", "k"), [(12, 1), (13, 2), (12, 3)])
def test_every_set_of_at_most_k_labels_is_argmaxable_with_slack(n, k):
    slack = np.random.default_rng(n).standard_normal((n, 4)) / np.sqrt(n)
    W = np.hstack([dft_matrix(n, k), slack])
    sets = [labels for size in range(k + 1) for labels in itertools.combinations(range(n), size)]
    Y = as_rows(sets, n)
    plain, wide = verify(W[:, : 2 * k + 1], Y, radius="exact"), verify(W, Y, radius="exact")
    assert plain.argmaxable.all()
    assert wide.argmaxable.all()
    assert check(W, Y, wide).all()
    assert (wide.radius_upper >= plain.radius_lower * (1 - 1e-6) * np.sqrt((2 * k + 1) / n) / row_norms(W).max()).all()


def test_sign_changes_are_counted_along_the_labels():
    Y = as_rows([[], [0], [2], [4], [0, 4], [1, 2], [0, 1, 2, 3, 4], [0, 2, 4], [1, 3]], 5)
    assert sign_changes(Y).tolist() == [0, 1, 2, 1, 2, 2, 0, 4, 4]
    dense = np.random.default_rng(0).random((40, 17)) < 0.4
    assert (sign_changes(sp.csr_matrix(dense.astype(np.float32))) == np.diff(dense, axis=1).sum(axis=1)).all()


@pytest.mark.parametrize(("n", "k"), [(6, 2), (7, 2), (9, 4)])
def test_certificates_have_the_signs_and_a_radius_that_is_true(n, k):
    W = dft_matrix(n, k)
    Y = all_sets(n)
    exact = verify(W, Y, radius="exact")
    for row in range(Y.shape[0]):
        labels = Y[row].indices
        proof = dft_certificate(labels, n, k)
        assert (proof is not None) == exact.argmaxable[row]
        if proof is None:
            continue
        assert proof.positive().tolist() == labels.tolist()
        assert len(proof.roots) <= 2 * k
        scores = W @ proof.point
        assert (np.sign(scores) == np.where(np.isin(np.arange(n), labels), 1, -1)).all()
        radius = 1e4 * np.abs(scores).min() / np.sqrt((2 * k + 1) / n)
        np.testing.assert_allclose(10**proof.log10_radius, radius, rtol=1e-6)
        assert 10**proof.log10_radius <= exact.radius_upper[row]


def test_certificates_reach_where_no_lp_can():
    n, k = 20_000, 50
    rng = np.random.default_rng(0)
    for _ in range(5):
        labels = np.sort(rng.choice(n, k, replace=False))
        proof = dft_certificate(labels, n, k)
        assert proof.positive().tolist() == labels.tolist()
        assert -400 < proof.log10_radius < 0
    apart = dft_certificate(np.arange(0, n, n // k), n, k)
    close = dft_certificate(np.arange(0, 2 * k, 2), n, k)
    assert close.log10_radius < apart.log10_radius - 100
    assert dft_certificate(np.arange(0, 2 * k + 2, 2), n, k) is None


def test_the_radius_shrinks_with_n_and_slack_brings_it_back():
    k, sets = 3, 30
    medians = {}
    for n, slack in itertools.product((20, 60, 180), (0, 16)):
        rng = np.random.default_rng(1)
        Y = as_rows([rng.choice(n, k, replace=False) for _ in range(sets)], n)
        W = np.hstack([dft_matrix(n, k), rng.standard_normal((n, slack)) / np.sqrt(n)])
        verdicts = verify(W, Y, radius="exact")
        assert verdicts.argmaxable.all()
        medians[n, slack] = np.median(verdicts.radius_lower)
    assert medians[20, 0] > 3 * medians[60, 0] > 9 * medians[180, 0]
    assert medians[180, 16] > 20 * medians[180, 0]


def test_all_small_sets_are_argmaxable_with_slack():
    n, k = 200, 5
    rng = np.random.default_rng(0)
    W = np.hstack([dft_matrix(n, k), rng.standard_normal((n, 16)) / np.sqrt(n)])
    sets = [[], [0], [n - 1], [0, n - 1], list(range(k)), list(range(0, 2 * k, 2))]
    Y = as_rows([*sets, *(rng.choice(n, size, replace=False) for size in (1, 2, 3, 4, 5) for _ in range(12))], n)
    verdicts = verify(W, Y)
    assert verdicts.argmaxable.all()
    assert check(W, Y, verdicts).all()


def test_bad_sizes_are_refused():
    for n, k in ((4, 2), (3, -1)):
        with pytest.raises(ConfigError, match="between 0 and"):
            dft_matrix(n, k)
        with pytest.raises(ConfigError, match="between 0 and"):
            dft_argmaxable(sp.csr_matrix((1, n)), k)
    with pytest.raises(DataError, match=r"outside 0\.\.9"):
        dft_certificate([10], 10, 2)
