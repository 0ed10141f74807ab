"""Calibration metrics against scikit-learn, a plain twin of torchmetrics' ECE, and in every form probabilities have."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, roc_auc_score

from xpipe import metrics
from xpipe.errors import ConfigError, DataError


def torchmetrics_ece(confidences, accuracies, bins):
    """As torchmetrics' functional calibration error with norm "l1" has it, bin by bin."""
    boundaries = np.linspace(0, 1, bins + 1)
    total = 0.0
    for low, high in pairwise(boundaries):
        inside = (confidences > low) & (confidences <= high)
        if inside.any():
            total += inside.mean() * abs(accuracies[inside].mean() - confidences[inside].mean())
    return total


def case(seed, n_rows=40, n_labels=9, density=0.6):
    rng = np.random.default_rng(seed)
    P = rng.random((n_rows, n_labels)) * (rng.random((n_rows, n_labels)) < density)
    P[0] = 0
    Y = (rng.random((n_rows, n_labels)) < P).astype(np.float32)
    Y[1] = 0
    return P, Y


def top(P, Y, k):
    """(confidences, hits) of the k best stored labels, one row and one label at a time."""
    confidences, hits = [], []
    for row in range(len(P)):
        order = sorted((-P[row, label], label) for label in np.flatnonzero(P[row]))[:k]
        confidences += [-negative for negative, _ in order]
        hits += [float(Y[row, label]) for _, label in order]
    return np.array(confidences), np.array(hits)


def plain_ace(confidences, hits, bins):
    """Bins of equally many predictions, one prediction at a time; equal confidences are in the bin of their first."""
    order = sorted(range(len(confidences)), key=lambda place: confidences[place])
    members = {}
    for rank, place in enumerate(order):
        if rank and confidences[place] == confidences[order[rank - 1]]:
            number = members[order[rank - 1]]
        else:
            number = rank * bins // len(order)
        members[place] = number
    total = 0.0
    for number in set(members.values()):
        own = [place for place in order if members[place] == number]
        total += abs(sum(hits[place] - confidences[place] for place in own))
    return total / len(order)


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 20), st.booleans())
@settings(max_examples=60, deadline=None)
def test_ace_is_that_of_the_twin(seed, k, bins, ties):
    P, Y = case(seed)
    P = np.ceil(4 * P) / 4 if ties else P
    expected = plain_ace(*top(P, Y, k), bins)
    assert metrics.ace(sp.csr_matrix(P), Y, k, bins=bins) == pytest.approx(expected, abs=1e-12)
    order = np.random.default_rng(seed).permutation(len(P))
    assert metrics.ace(P[order], Y[order], k, bins=bins) == pytest.approx(metrics.ace(P, Y, k, bins=bins), abs=1e-12)
    assert metrics.ace(P, Y, k, bins=1) == pytest.approx(metrics.ece(P, Y, k, bins=1), abs=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_ece_and_table_are_those_of_the_twins(seed, k, bins):
    P, Y = case(seed)
    confidences, hits = top(P, Y, k)
    found = metrics.reliability(sp.csr_matrix(P), sp.csr_matrix(Y), k, bins=bins)
    np.testing.assert_allclose(found.ece, torchmetrics_ece(confidences, hits, bins), atol=1e-12)
    np.testing.assert_allclose(metrics.ece(sp.csr_matrix(P), Y, k, bins=bins), found.ece, rtol=0)
    accuracy, mean = calibration_curve(hits, confidences, n_bins=bins, strategy="uniform")
    filled = found.count > 0
    np.testing.assert_allclose(found.accuracy[filled], accuracy)
    np.testing.assert_allclose(found.confidence[filled], mean)
    assert found.count.sum() == len(hits)
    assert np.isnan(found.accuracy[~filled]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_and_sparse_agree(dtype):
    P, Y = case(3, density=1.0)
    P = P.astype(dtype)
    P[0] = 0.25  # ties: the smaller label first
    shuffled = sp.csr_matrix(P)
    for row in range(len(P)):  # entries of a row in any order
        inside = slice(shuffled.indptr[row], shuffled.indptr[row + 1])
        order = np.random.default_rng(row).permutation(inside.stop - inside.start)
        shuffled.indices[inside] = shuffled.indices[inside][order]
        shuffled.data[inside] = shuffled.data[inside][order]
    shuffled.has_sorted_indices = False
    for form in (sp.csr_matrix(P), sp.coo_matrix(P.astype(np.float32)).astype(dtype), shuffled):
        assert metrics.ece(form, Y, 4) == pytest.approx(metrics.ece(P, Y, 4), abs=1e-7)
        assert metrics.brier(form, Y) == pytest.approx(metrics.brier(P, Y), abs=1e-6)
        np.testing.assert_allclose(metrics.max_confidence(form), P.max(axis=1), rtol=1e-6)


def test_confidences_on_edges_belong_to_the_bin_below():
    P = np.array([[0.0, 0.25, 0.5, 1.0]])
    found = metrics.reliability(P, np.array([[0, 0, 1, 1]]), 4, bins=4)
    assert found.count.tolist() == [2, 1, 0, 1]
    assert found.accuracy[[0, 1, 3]].tolist() == [0, 1, 1]
    assert found.rows()[2] == {"from": 0.5, "to": 0.75, "count": 0, "confidence": None, "accuracy": None}
    assert found.rows()[1] == {"from": 0.25, "to": 0.5, "count": 1, "confidence": 0.5, "accuracy": 1.0}


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 30), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_auroc_is_scikit_learns_with_ties(seed, n_inside, n_outside, levels):
    rng = np.random.default_rng(seed)
    inside, outside = rng.integers(0, levels, n_inside) / 8, rng.integers(0, levels + 1, n_outside) / 8
    expected = roc_auc_score([1] * n_inside + [0] * n_outside, np.concatenate([inside, outside]))
    assert metrics.auroc(inside, outside) == pytest.approx(expected)


@given(st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_brier_is_scikit_learns(seed):
    P, Y = case(seed)
    expected = brier_score_loss(Y.ravel(), P.ravel()) * P.shape[1]
    assert metrics.brier(sp.csr_matrix(P), Y) == pytest.approx(expected)
    assert metrics.brier(P, sp.csr_matrix(Y)) == pytest.approx(expected)


def test_mean_maximum_confidence():
    P, _ = case(5)
    assert metrics.max_confidence(sp.csr_matrix(P))[0] == 0
    assert metrics.mean_max_confidence(sp.csr_matrix(P)) == pytest.approx(P.max(axis=1).mean())


@pytest.mark.parametrize("value", [1.5, -0.1, np.nan])
@pytest.mark.parametrize("form", [sp.csr_matrix, np.asarray])
def test_what_is_no_probability_is_refused(value, form):
    P = np.full((3, 4), 0.5)
    P[2, 1] = value
    for call in (metrics.ece, metrics.brier):
        with pytest.raises(DataError, match=r"(?s)a probability is.*row 2, label 1"):
            call(form(P), np.eye(3, 4))
    with pytest.raises(DataError, match="a probability is"):
        metrics.mean_max_confidence(form(P))


def test_other_mistakes():
    P, Y = case(0)
    with pytest.raises(DataError, match="same shape"):
        metrics.ece(P, Y[:, :-1])
    with pytest.raises(DataError, match="needs probabilities"):
        metrics.ece(np.zeros((40, 2), np.int32), Y)
    with pytest.raises(ConfigError, match="`bins`"):
        metrics.ece(P, Y, bins=0)
    with pytest.raises(ConfigError, match="bins"):
        metrics.ace(P, Y, bins=0)
    with pytest.raises(ConfigError, match="`k`"):
        metrics.ece(P, Y, 0)
    with pytest.raises(DataError, match="nothing to measure"):
        metrics.ece(sp.csr_matrix((3, 4)), np.eye(3, 4))
    with pytest.raises(DataError, match="nothing to measure"):
        metrics.mean_max_confidence(np.zeros((0, 4)))
    with pytest.raises(DataError, match="at least one"):
        metrics.auroc([], [0.5])
    with pytest.raises(DataError, match="has nan"):
        metrics.auroc([0.5], [0.1, np.nan])
    twins = sp.csr_matrix((np.full(2, 0.5), np.array([1, 1]), np.array([0, 2, 2])), (2, 4))
    with pytest.raises(DataError, match="label 1 twice"):
        metrics.brier(twins, np.eye(2, 4))
