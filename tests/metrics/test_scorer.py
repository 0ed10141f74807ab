"""Scorers: the metric of the same predictions, names that training has not seen, estimators that are not ours."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from xpipe.errors import ConfigError
from xpipe.metrics import make_scorer, ndcg, recall


class Known:
    """Scores of labels a and c, whatever the rows."""

    classes_ = np.array(["a", "c"])

    def __init__(self, **methods):
        self.__dict__.update(methods)


def test_a_name_that_was_never_seen_is_not_found():
    model = Known(predict=lambda X, k=5: sp.csr_matrix([[0.2, 0.9], [0.6, 0.1]]))
    truth = np.array([[0, 1, 1], [1, 0, 0]])  # a, c, and b, which the model does not know
    expected = ndcg(np.array([[0.2, 0.9, -np.inf], [0.6, 0.1, -np.inf]]), truth, k=2)[-1]
    assert make_scorer("ndcg", k=2)(model, None, [["c", "b"], ["a"]]) == expected < 1


@pytest.mark.parametrize("method", ["decision_function", "predict_proba", "predict"])
def test_other_estimators(method):
    scores = np.array([[0, 1], [1, 0]]) if method == "predict" else np.array([[0.2, 0.9], [0.6, 0.1]])
    truth = np.array([[0, 1], [0, 1]])
    found = make_scorer("recall", k=1)(Known(**{method: lambda X: scores}), None, truth)
    assert found == recall(scores.astype(float), truth, k=1)[-1] == 0.5


def test_one_array_per_label():
    model = Known(predict_proba=lambda X: [np.array([[0.8, 0.2]]), np.array([[0.1, 0.9]])])
    assert make_scorer("precision", k=1)(model, None, np.array([[0, 1]])) == 1.0


def test_mistakes():
    with pytest.raises(ConfigError, match="ndcg"):
        make_scorer("ndgc")
    with pytest.raises(ConfigError, match="inverse_propensity"):
        make_scorer("psp")
    with pytest.raises(ConfigError, match="classes_"):
        make_scorer("ndcg")(type("Bare", (), {"predict": lambda self, X: np.ones((1, 1))})(), None, [["a"]])
