"""Scores in every form they may have: the same answer from all, and an error that names row and label for bad ones."""

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


@settings(deadline=None, max_examples=80)  # the first call compiles
@given(cases())
def test_the_best_labels_of_each_row(case):
    ranked = metrics.rank(case.scores, case.k, filter_labels=case.pairs or None)
    for row, predictions in enumerate(oracles.leave_out(case.predictions, case.pairs)):
        best = oracles.rank(predictions)[: case.k]
        assert ranked.labels[row].tolist() == best + [-1] * (case.k - len(best))
        assert ranked.tied[row] == oracles.is_tied(predictions, case.k)


def forms_of(case: Case) -> dict[str, object]:
    """The same predictions in every form; 0 is not among the scores."""
    n_rows, width = len(case.predictions), max(map(len, case.predictions))
    lists = np.full((n_rows, width), -1, dtype=np.int64)
    labels, values = lists.astype(np.int32), np.full((n_rows, width), np.nan, dtype=np.float32)
    dense = np.full((n_rows, case.n_labels), -np.inf, dtype=np.float32)
    for row, predictions in enumerate(case.predictions):
        lists[row, : len(predictions)] = oracles.rank(predictions)
        labels[row, width - len(predictions) :] = list(predictions)  # in no order, and none at the front
        values[row, width - len(predictions) :] = list(predictions.values())
        dense[row, list(predictions)] = list(predictions.values())
    csr = case.scores
    backwards = csr.copy()
    backwards.indices = np.concatenate([csr[row].indices[::-1] for row in range(n_rows)]).astype(np.int32)
    backwards.data = np.concatenate([csr[row].data[::-1] for row in range(n_rows)])
    backwards.has_sorted_indices = False
    return {
        "csr": csr,
        "csr array": sp.csr_array(csr),
        "csc": csr.tocsc(),
        "float64": csr.astype(np.float64),
        "unsorted": backwards,
        "pair": (labels, values),
        "pair of int64 and float64": (labels.astype(np.int64), values.astype(np.float64)),
        "dense": dense,
        "dense float64": dense.astype(np.float64),
        "dense by columns": np.asfortranarray(dense),
        "ranked": lists,
        "ranked int16": lists.astype(np.int16),
    }


@pytest.mark.parametrize("levels", [None, 3])
def test_every_form_of_scores_gives_the_same_answer(levels):
    case = random_case(7, n_rows=60, levels=levels)._replace(pairs=[(0, 3), (5, 1), (5, 2), (59, 0)])
    q = 1 + np.arange(case.n_labels) % 7
    results = {
        name: metrics.measure(form, case.truth, 5, inverse_propensity=q, filter_labels=case.pairs)
        for name, form in forms_of(case).items()
    }
    assert results["csr"].tied_rows > 0 or levels is None
    for name, measured in results.items():
        for metric in (*NAMES, "short_rows", "rows_without_labels"):
            np.testing.assert_array_equal(getattr(measured, metric), getattr(results["csr"], metric), err_msg=name)
        assert measured.tied_rows == (0 if name.startswith("ranked") else results["csr"].tied_rows)


def test_zeros_of_both_signs_are_equal():
    scores = np.full((1, 40), -1, dtype=np.float32)
    scores[0, 20:30:2], scores[0, 21:30:2] = 0.0, -0.0
    for form in (scores, scores.astype(np.float64)):
        ranked = metrics.rank(form, 4)
        assert ranked.labels.tolist() == [[20, 21, 22, 23]]
        assert ranked.tied.all()


def test_integer_and_boolean_scores_are_scores():
    counts = sp.csr_matrix(np.array([[3, 0, 2**24 + 1], [0, 5, 1]]))
    assert metrics.rank(counts, 2).labels.tolist() == [[2, 0], [1, 2]]
    assert metrics.rank(counts.astype(bool), 2).labels.tolist() == [[0, 2], [1, 2]]
    large = sp.csr_matrix(np.array([[2**24, 2**24 + 1]]))  # float32 cannot tell them apart
    assert metrics.rank(large, 1).labels.tolist() == [[1]]


def test_f1_above_a_threshold_in_every_form():
    case = random_case(11, n_rows=30)
    forms = forms_of(case)
    expected = metrics.f1_above(forms["csr"], case.truth, 0.6)
    assert 0 < expected.hits < expected.predicted
    for name in ("unsorted", "pair", "dense"):
        assert metrics.f1_above(forms[name], case.truth, 0.6) == expected, name
    with pytest.raises(ConfigError, match="no scores to compare"):
        metrics.f1_above(forms["ranked"], case.truth, 0.6)
    with pytest.raises(ConfigError, match="threshold"):
        metrics.f1_above(forms["csr"], case.truth, NAN)
    with pytest.raises(DataError, match="a score is nan"):
        metrics.f1_above(np.array([[NAN, 1]]), np.eye(1, 2), 0.5)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("threshold", [0.1, 0.3, 0.6, 0.7, 0.9, 1 / 3, 1.0, -0.7])
def test_a_score_reaches_the_threshold_it_was_written_as(kind, threshold):
    just_below = np.nextafter(kind(threshold), kind(-9))
    dense = np.array([[kind(threshold), just_below, kind(5)]])
    truth = np.array([[1.0, 1.0, 0.0]])
    labels = np.array([[0, 1, 2]])
    forms = {"dense": dense, "pair": (labels, dense)}
    if kind != np.float16:
        forms |= {"csr": sp.csr_matrix(dense)}
    for name, scores in forms.items():
        found = metrics.f1_above(scores, truth, threshold)
        assert (found.predicted, found.hits) == (2, 1), name
    if kind != np.float16:  # other sparse formats become float32 on their way: as the threshold does
        assert metrics.f1_above(sp.coo_matrix(dense), truth, threshold).hits >= 1


def test_a_threshold_beyond_the_type_of_the_scores_is_reached_by_none():
    assert metrics.f1_above(np.array([[60000]], np.float16), np.ones((1, 1)), 1e6).predicted == 0
    counts = sp.csr_matrix(np.array([[1, 2]]))
    assert metrics.f1_above(counts, np.ones((1, 2)), 1.5).predicted == 1  # whole numbers are not rounded to


def csr(rows: list[list[float]], labels: list[list[int]], n_labels: int = 4) -> sp.csr_matrix:
    """A matrix that no constructor looked at."""
    matrix = sp.csr_matrix((len(rows), n_labels), dtype=np.float32)
    matrix.indptr = np.cumsum([0] + [len(row) for row in rows]).astype(np.int32)
    matrix.indices = np.concatenate(labels).astype(np.int32)
    matrix.data = np.concatenate(rows).astype(np.float32)
    return matrix


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (csr([[1], [2, NAN]], [[0], [1, 3]]), "a score is nan\n  where: row 1, label 3"),
        (csr([[1], [2, INF]], [[0], [1, 3]]), "a score is inf\n  where: row 1, label 3"),
        (np.array([[1, 2, 3, 4], [1, 2, NAN, 3]]), "a score is nan\n  where: row 1, label 2"),
        (csr([[1], [2, 3]], [[0], [1, 4]]), "label 4, but labels are 0..3\n  where: row 1, place 1"),
        (csr([[1], [2, 3]], [[0], [-1, 3]]), "label -1, but labels are 0..3\n  where: row 1, place 0"),
        (csr([[1], [2, 3, 1]], [[0], [2, 1, 2]]), "label 2 twice\n  where: row 1"),
        (csr([[1], [2, 3]], [[0], [2, 2]]), "label 2 twice\n  where: row 1"),
        (np.array([[0, 1], [1, 1]]), "label 1 twice\n  where: row 1"),
        (np.array([[0, 1], [1, 4]]), "label 4, but"),
        (np.array([[0, 1], [1, 2**40]]), "but labels are 0..3"),
        (np.array([[0, -1, 1], [1, 2, 3]]), "label 1 comes after a -1\n  where: row 0, place 2"),
        (np.array([[0, 1], [-2, 1]]), "label -2, but"),
        ((np.array([[0, 1], [1, -2]]), np.ones((2, 2))), "label -2, but"),
        ((np.array([[0, 1], [1, 2]]), np.array([[1.0, 2.0], [NAN, 1.0]])), "a score is nan\n  where: row 1, label 1"),
        ((np.array([[0, 1], [1, 2]]), np.ones((2, 3))), "do not fit each other"),
        ((np.ones((2, 2)), np.ones((2, 2))), "do not fit each other"),
        (csr([[1]], [[0]]), "1 rows x 4 labels, true labels 2 x 4"),
        (csr([[1], [1]], [[0], [0]], 5), "2 rows x 5 labels, true labels 2 x 4"),
        (np.ones((2, 3)), "2 rows x 3 labels"),
        (np.array([[0], [1], [2]]), "3 rows x 4 labels"),
        (np.ones(4), "scores cannot be ndarray float64 (4,)"),
        ([[0, 1], [2]], "scores cannot be list"),
        (csr([[1], [1]], [[0], [0]]).astype(complex), "must be real numbers"),
    ],
)
def test_wrong_scores(scores, words):
    with pytest.raises(DataError) as caught:
        metrics.measure(scores, np.eye(2, 4), 3)
    assert words in str(caught.value)


def test_nan_is_found_wherever_it_stands():
    clean = np.random.default_rng(0).random((1, 50), dtype=np.float32)
    for place in range(50):
        scores = clean.copy()
        scores[0, place] = NAN
        for form in (scores, sp.csr_matrix(scores)):
            with pytest.raises(DataError, match="a score is nan"):
                metrics.rank(form, 5)


def test_row_pointers_that_do_not_fit():
    scores = csr([[1], [2, 3]], [[0], [1, 2]])
    scores.indptr = np.array([0, 2, 9], dtype=np.int32)
    with pytest.raises(DataError, match="row pointers"):
        metrics.precision(scores, np.eye(2, 4))


def test_the_number_of_labels_must_be_known():
    with pytest.raises(ConfigError, match="n_labels must be given"):
        metrics.rank(np.array([[1, 2]]))
    assert metrics.rank(np.array([[1, 2]]), 1, n_labels=3).labels.tolist() == [[1]]
