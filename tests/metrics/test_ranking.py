"""Metrics against their twins, against other projects' numbers, and in every form that scores may have."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings

from tests.metrics import oracles
from tests.metrics.strategies import Case, cases, random_case
from xpipe import metrics
from xpipe.errors import ConfigError, DataError

NAMES = ("precision", "recall", "f1", "ndcg", "micro_f1", "macro_f1", "coverage", "psp", "psndcg")

# Six rows without ties: a usual one, a short list, no true labels, a short list, no predictions, many true labels.
GOLDEN_SCORES = np.array(
    [
        [0.9, 0.1, 0.8, 0, 0.3, 0.7, 0.2, 0.4],
        [0, 0.6, 0, 0.5, 0, 0, 0, 0],
        [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9],
        [0.1, 0, 0.9, 0, 0.8, 0, 0.7, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [0.35, 0.25, 0.15, 0.05, 0.45, 0.55, 0.65, 0.75],
    ],
    dtype=np.float32,
)
GOLDEN_TRUTH = np.array(
    [
        [1, 0, 1, 0, 0, 0, 0, 1],
        [0, 1, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [1, 0, 0, 0, 1, 0, 1, 1],
        [0, 1, 0, 0, 0, 0, 0, 0],
        [1, 1, 1, 1, 1, 1, 1, 0],
    ],
    dtype=np.float32,
)
NAN = float("nan")
GOLDEN_FREQUENCY = np.array([40, 25, 12, 9, 5, 3, 1, 0])  # in 100 training rows
GOLDEN = {  # the first five of pyxclib's xc_metrics and of napkinXC 0.7.2 alike, the others of napkinXC
    "precision": [0.3333333333, 0.4166666667, 0.3888888889, 0.4166666667, 0.3666666667],
    "recall": [0.2222222222, 0.3432539683, 0.4087301587, 0.5297619048, 0.5535714286],
    "ndcg": [0.3333333333, 0.4622842691, 0.4711338642, 0.5311179806, 0.5396546214],
    "psp": [0.1865033026, 0.4523480983, 0.5704368726, 0.7593577220, 0.7577516086],
    "psndcg": [0.1865033026, 0.3891216245, 0.4673492706, 0.5698675262, 0.5711501343],
    "macro_f1": [0.125, 0.3333333333, 0.4333333333, 0.5375, 0.5458333333],
    "coverage": [0.25, 0.625, 0.75, 0.875, 0.875],
}


def propensities(n_labels: int) -> np.ndarray:
    return 1 + 3 / (1 + np.arange(n_labels)[::-1] % 7)


def twins(case: Case) -> dict[str, list[float]]:
    """Every metric at 1..k by the twins."""
    true = oracles.leave_out(case.true, case.pairs)
    ranked = [oracles.rank(row) for row in oracles.leave_out(case.predictions, case.pairs)]
    q = propensities(case.n_labels)
    found: dict[str, list[float]] = {name: [] for name in NAMES}
    for k in range(1, case.k + 1):
        for name in ("precision", "recall", "f1", "ndcg", "coverage"):
            found[name].append(getattr(oracles, name)(ranked, true, k))
        for name in ("psp", "psndcg"):
            found[name].append(getattr(oracles, name)(ranked, true, k, q))
        micro, macro = oracles.f1_of_sets([set(row[:k]) for row in ranked], true, case.n_labels)
        found["micro_f1"].append(micro)
        found["macro_f1"].append(macro)
    return found


def check_twins(case: Case) -> None:
    measured = metrics.measure(
        case.scores,
        case.truth,
        case.k,
        inverse_propensity=propensities(case.n_labels),
        filter_labels=case.pairs or None,
    )
    for name, values in twins(case).items():
        np.testing.assert_allclose(getattr(measured, name), values, rtol=0, atol=1e-12, err_msg=name)
    true = oracles.leave_out(case.true, case.pairs)
    predictions = oracles.leave_out(case.predictions, case.pairs)
    assert measured.rows_without_labels == sum(not labels for labels in true)
    assert measured.tied_rows == sum(oracles.is_tied(row, case.k) for row in predictions)
    assert measured.short_rows == sum(len(row) < case.k for row in predictions)
    assert measured.filtered_true == sum(map(len, case.true)) - sum(map(len, true))


@settings(deadline=None, max_examples=80)  # the first call compiles
@given(cases())
def test_metrics_are_those_of_the_twins(case):
    check_twins(case)


@pytest.mark.parametrize("levels", [None, 4, 1])
@pytest.mark.parametrize("k", [1, 5, 14, 15, 16, 40])
def test_long_rows_are_ranked_as_the_twins_rank_them(k, levels):
    case = random_case(k, n_rows=40, k=k, levels=levels)
    check_twins(case)
    best = [(row, label) for row in range(0, 40, 2) for label in oracles.rank(case.predictions[row])[:4:2]]
    check_twins(case._replace(pairs=best))


@settings(deadline=None, max_examples=80)  # the first call compiles
@given(cases())
def test_rows_without_labels_can_be_removed(case):
    kept = [row for row, labels in enumerate(oracles.leave_out(case.true, case.pairs)) if labels]
    if not kept:
        with pytest.raises(DataError, match="nothing to measure"):
            metrics.measure(case.scores, case.truth, filter_labels=case.pairs or None, remove_empty=True)
        return
    q = propensities(case.n_labels)
    options = {"inverse_propensity": q, "keep_rows": True}
    removed = metrics.measure(
        case.scores, case.truth, case.k, filter_labels=case.pairs or None, remove_empty=True, **options
    )
    without = case._replace(
        predictions=[oracles.leave_out(case.predictions, case.pairs)[row] for row in kept],
        true=[oracles.leave_out(case.true, case.pairs)[row] for row in kept],
        pairs=[],
    )
    there = metrics.measure(without.scores, without.truth, case.k, **options)
    for name in (*NAMES, "n_rows", "tied_rows", "short_rows", "contributions"):
        np.testing.assert_array_equal(getattr(removed, name), getattr(there, name), err_msg=name)
    assert removed.rows_removed == removed.rows_without_labels == len(case.true) - len(kept)


def test_golden_values_of_other_projects():
    q = metrics.inverse_propensity(GOLDEN_FREQUENCY, 100, a=0.55, b=1.5)
    measured = metrics.measure(sp.csr_matrix(GOLDEN_SCORES), sp.csr_matrix(GOLDEN_TRUTH), 5, inverse_propensity=q)
    for name, values in GOLDEN.items():
        np.testing.assert_allclose(getattr(measured, name), values, atol=1e-9, err_msg=name)
    assert measured.micro_f1[4] == pytest.approx(0.5945945946, abs=1e-9)
    assert (measured.rows_without_labels, measured.short_rows, measured.tied_rows) == (1, 3, 0)


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_napkinxc(seed):
    peer = pytest.importorskip("napkinxc.metrics")
    case = random_case(seed, levels=5 if seed % 2 else None)
    q = propensities(case.n_labels)
    ranked = [oracles.rank(row) for row in case.predictions]
    true = [sorted(labels) for labels in case.true]
    measured = metrics.measure(case.scores, case.truth, 5, inverse_propensity=q)
    theirs = {
        "precision": peer.precision_at_k(true, ranked, 5),
        "recall": peer.recall_at_k(true, ranked, 5),
        "ndcg": peer.ndcg_at_k(true, ranked, 5),
        "psp": peer.psprecision_at_k(true, ranked, q, 5),
        "psndcg": peer.psndcg_at_k(true, ranked, q, 5),
        "macro_f1": peer.macro_f1_measure_at_k(true, ranked, 5),
        "coverage": peer.coverage_at_k(true, ranked, 5),
        "micro_f1": [peer.micro_f1_measure(true, [row[:k] for row in ranked]) for k in range(1, 6)],
    }
    for name, values in theirs.items():
        np.testing.assert_allclose(getattr(measured, name), values, atol=1e-6, err_msg=name)
    if not seed % 2:  # without ties its own ranking must be ours
        np.testing.assert_allclose(measured.psndcg, peer.psndcg_at_k(case.truth, case.scores, q, 5), atol=1e-6)


@pytest.mark.parametrize("seed", range(2))
def test_agrees_with_pyxclib(seed):
    peer = pytest.importorskip("xclib.evaluation.xc_metrics")
    case = random_case(seed)
    q = propensities(case.n_labels)
    measured = metrics.measure(case.scores, case.truth, 5, inverse_propensity=q)
    theirs = {
        "precision": peer.precision(case.scores, case.truth, 5),
        "recall": peer.recall(case.scores, case.truth, 5),
        "ndcg": peer.ndcg(case.scores, case.truth, 5),
        "psp": peer.psprecision(case.scores, case.truth, q, 5),
        "psndcg": peer.psndcg(case.scores, case.truth, q, 5),
    }
    for name, values in theirs.items():
        np.testing.assert_allclose(getattr(measured, name), values, atol=1e-6, err_msg=name)


def test_dense_truth_and_values_that_are_not_one():
    truth = sp.csr_matrix(GOLDEN_TRUTH)
    weighted = truth * 0.25
    weighted.data[0] = 0  # an explicit zero is no label
    assert metrics.precision(GOLDEN_SCORES, weighted, 1)[0] == pytest.approx(1 / 6)
    for same in (GOLDEN_TRUTH, GOLDEN_TRUTH.astype(bool), truth * 2, truth.tocoo()):
        assert np.array_equal(metrics.recall(GOLDEN_SCORES, same), metrics.recall(GOLDEN_SCORES, truth))


def test_each_metric_by_its_name():
    q = propensities(8)
    measured = metrics.measure(GOLDEN_SCORES, GOLDEN_TRUTH, 3, inverse_propensity=q)
    for name in ("precision", "recall", "ndcg", "f1", "micro_f1", "macro_f1", "coverage"):
        assert np.array_equal(getattr(metrics, name)(GOLDEN_SCORES, GOLDEN_TRUTH, k=3), getattr(measured, name)), name
    for name in ("psp", "psndcg"):
        assert np.array_equal(getattr(metrics, name)(GOLDEN_SCORES, GOLDEN_TRUTH, q, k=3), getattr(measured, name))
    assert metrics.measure(GOLDEN_SCORES, GOLDEN_TRUTH).psp is None


def test_the_same_bytes_for_any_number_of_threads():
    case = random_case(3, n_rows=5000, n_labels=30)  # several chunks
    q = propensities(case.n_labels)
    alone, many = (
        metrics.measure(case.scores, case.truth, inverse_propensity=q, threads=threads, keep_rows=True)
        for threads in (1, 3)
    )
    for name in (*NAMES, "contributions"):
        assert getattr(alone, name).tobytes() == getattr(many, name).tobytes()
    assert alone.precision[0] == pytest.approx(twins(case._replace(k=1))["precision"][0])


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"k": 0}, ConfigError, "`k` must be"),
        ({"k": 2.0}, ConfigError, "`k` must be"),
        ({"threads": 0}, ConfigError, "`threads` must be"),
        ({"inverse_propensity": np.ones(3)}, DataError, "there are 4 labels"),
        ({"inverse_propensity": np.array([1, 1, 0, 1])}, DataError, "is 0.0\n  where: label 2"),
        ({"inverse_propensity": np.array([1, NAN, 1, 1])}, DataError, "is nan\n  where: label 1"),
        ({"filter_labels": [[2, 0]]}, DataError, "name row 2, but rows are 0..1"),
        ({"filter_labels": [[0, 4]]}, DataError, "name label 4, but labels are 0..3"),
        ({"filter_labels": [[0, -1]]}, DataError, "name label -1"),
        ({"filter_labels": [0, 1]}, DataError, "must be whole numbers [n, 2]"),
        ({"filter_labels": [[0.5, 1]]}, DataError, "must be whole numbers [n, 2]"),
    ],
)
def test_wrong_options(options, kind, words):
    with pytest.raises(kind) as caught:
        metrics.measure(np.ones((2, 4)), np.eye(2, 4), **options)
    assert words in str(caught.value)


def test_nothing_to_measure():
    with pytest.raises(DataError, match="nothing to measure"):
        metrics.precision(sp.csr_matrix((0, 3)), sp.csr_matrix((0, 3)))
    nothing = metrics.measure(np.ones((2, 3)), np.zeros((2, 3)), 2, inverse_propensity=np.ones(3))
    for name in NAMES:
        assert getattr(nothing, name).tolist() == [0, 0], name
    with pytest.raises(DataError, match="none of the 2 rows has a true label"):
        metrics.precision(np.ones((2, 3)), np.zeros((2, 3)), remove_empty=True)


@settings(deadline=None, max_examples=80)  # the first call compiles
@given(cases())
def test_f1_above_a_threshold(case):
    for threshold in (-1.0, 0.0, 0.5):
        predicted = [
            {label for label, score in row.items() if score >= threshold}
            for row in oracles.leave_out(case.predictions, case.pairs)
        ]
        true = oracles.leave_out(case.true, case.pairs)
        found = metrics.f1_above(case.scores, case.truth, threshold, filter_labels=case.pairs or None)
        assert found[:2] == pytest.approx(oracles.f1_of_sets(predicted, true, case.n_labels), abs=1e-12)
        assert found.predicted == sum(map(len, predicted))
        kept = [row for row, labels in enumerate(true) if labels]
        predicted = [labels if true[row] else set() for row, labels in enumerate(predicted)]
        removed = metrics.f1_above(
            case.scores, case.truth, threshold, filter_labels=case.pairs or None, remove_empty=True
        )
        assert removed.micro == pytest.approx(oracles.f1_of_sets(predicted, true, case.n_labels)[0])
        assert removed.predicted == sum(len(predicted[row]) for row in kept)
