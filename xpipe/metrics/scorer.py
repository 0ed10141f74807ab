"""Scorers for scikit-learn's `cross_val_score` and `GridSearchCV`: one metric at k, of any estimator.

Holds no metric (`ranking`), and does not import scikit-learn.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp

from xpipe.errors import ConfigError
from xpipe.ground.close_match import did_you_mean
from xpipe.ground.given_labels import as_labels, fit_columns
from xpipe.metrics import ranking
from xpipe.metrics.options import K
from xpipe.metrics.predictions import check_k

Metric = Literal["precision", "recall", "ndcg", "f1", "micro_f1", "macro_f1", "coverage", "psp", "psndcg"]


@dataclass(frozen=True)
class Scorer:
    """A metric at k of a fitted estimator: call it with the estimator, rows and true labels; from `make_scorer`."""

    metric: Metric
    k: int
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, estimator: Any, X: Any, Y: Any) -> float:
        """The metric at k.

        Parameters
        ----------
        estimator : object
            A fitted estimator: a `LabelTree`, a `Pipeline` that ends in one, or another with `predict_proba`,
            `decision_function` or `predict`.
        X : object
            Rows, as the estimator takes them.
        Y : matrix, array, frame or lists of labels
            True labels, as `LabelTree.fit` takes them. Names are those of `estimator.classes_`. A name that is not
            among them was never seen in training; it counts as a label that is not found.

        Returns
        -------
        float

        Raises
        ------
        ConfigError
            Names are given, but the estimator has no `classes_`.
        DataError
            Rows or labels are wrong, or do not fit each other.
        """
        scores, given = _scores_of(estimator, X, self.k), as_labels(Y, "true labels")
        truth = given.matrix
        if given.names is not None:
            names = getattr(estimator, "classes_", None)
            if names is None:
                kind = type(estimator).__name__
                raise ConfigError(f"{kind} has no classes_", why="it does not know names", fix="give a 0/1 matrix")
            truth = fit_columns(given, np.asarray(names))
        if scores.shape[1] < truth.shape[1] and given.names is not None:
            scores = _widened(scores, truth.shape[1])
        measure: Callable[..., np.ndarray] = getattr(ranking, self.metric)
        return float(measure(scores, truth, k=self.k, **self.options)[-1])

    def __repr__(self) -> str:
        """The call that makes the same scorer."""
        more = "".join(f", {name}=..." for name in self.options)
        return f"make_scorer({self.metric!r}, k={self.k}{more})"


def make_scorer(metric: Metric, k: int = K, **options: Any) -> Scorer:
    """A scorer for scikit-learn: `cross_val_score(model, X, Y, scoring=make_scorer("ndcg", k=5))`.

    Parameters
    ----------
    metric : {"precision", "recall", "ndcg", "f1", "micro_f1", "macro_f1", "coverage", "psp", "psndcg"}
        Which metric; higher is better for all of them.
    k : int, default 5
        How many labels per row count.
    **options
        Those of the metric, as `remove_empty`; psp and psndcg need `inverse_propensity`.

    Returns
    -------
    Scorer
        Call it with a fitted estimator, rows and true labels: it gives the metric at k.

    Raises
    ------
    ConfigError
        There is no such metric, or k is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.metrics import make_scorer
    >>> class Constant:
    ...     classes_ = np.array(["bread", "soup"])
    ...     def predict_proba(self, X):
    ...         return np.tile([0.9, 0.1], (len(X), 1))
    >>> make_scorer("precision", k=1)(Constant(), [[1], [2]], [["bread"], ["soup"]])
    0.5
    """
    if metric not in get_args(Metric):
        known = get_args(Metric)
        raise ConfigError(f"there is no metric {metric!r}", fix=did_you_mean(metric, known) or ", ".join(known))
    if metric in ("psp", "psndcg") and "inverse_propensity" not in options:
        raise ConfigError(f"{metric} needs `inverse_propensity`", fix="xpipe.metrics.inverse_propensity(Y)")
    return Scorer(metric, check_k(k), options)


def _scores_of(estimator: Any, X: Any, k: int) -> Any:
    """Scores of rows x labels: of estimators whose `predict` takes k its result, of others what ranks labels best."""
    own = getattr(estimator, "best_estimator_", estimator)  # that of a search; its own `predict` takes no k
    last = own.steps[-1][1] if hasattr(own, "steps") else own
    if hasattr(last, "predict") and "k" in inspect.signature(last.predict).parameters:
        return own.predict(X, k=k)
    for method in ("decision_function", "predict_proba", "predict"):
        if hasattr(own, method):
            found = getattr(own, method)(X)
            if isinstance(found, list):  # one array per label, with the probabilities of 0 and 1
                found = np.stack([np.asarray(each)[:, -1] for each in found], axis=1)
            return found if sp.issparse(found) else np.asarray(found, dtype=np.float64)
    raise ConfigError(f"{type(estimator).__name__} predicts nothing", fix="give an estimator with `predict`")


def _widened(scores: Any, n_labels: int) -> Any:
    """Scores with further labels that are not predicted."""
    more = n_labels - scores.shape[1]
    if sp.issparse(scores):
        found = sp.csr_matrix(scores, copy=False)
        return sp.csr_matrix((found.data, found.indices, found.indptr), shape=(found.shape[0], n_labels))
    return np.pad(scores, ((0, 0), (0, more)), constant_values=-np.inf)
