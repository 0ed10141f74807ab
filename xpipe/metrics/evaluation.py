"""One call from files to results: metrics with intervals, metrics by label frequency, and counts of special rows.

Holds no arithmetic (`measuring`, `breakdown`, `bootstrap`, `thresholds`), no reading of formats and no tables.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np

from xpipe.errors import ConfigError, DataError
from xpipe.metrics.bootstrap import intervals
from xpipe.metrics.breakdown import break_down
from xpipe.metrics.measuring import Measured, measure
from xpipe.metrics.options import CONFIDENCE, RESAMPLES, K
from xpipe.metrics.propensity import inverse_propensity, label_frequency, usual_propensity
from xpipe.metrics.propensity_constants import Constants
from xpipe.metrics.score_files import Known, read_scores, read_truth
from xpipe.metrics.thresholds import f1_above

METRICS = ("precision", "recall", "f1", "ndcg", "psp", "psndcg", "micro_f1", "macro_f1", "coverage")


@dataclasses.dataclass(frozen=True)
class EvaluationOptions:
    """How scores in memory are evaluated; the fields are explained in `evaluate`. constants: of propensities."""

    k: int = K
    constants: Constants | None = None
    remove_empty: bool = False
    threshold: float | None = None
    resamples: int = RESAMPLES
    confidence: float = CONFIDENCE
    seed: int = 0
    threads: int | None = None


def evaluate(
    truth: str,
    scores: str,
    *,
    split: str = "test",
    train: str | None = None,
    dataset: str | None = None,
    propensity: tuple[float, float] | None = None,
    filter_labels: str | None = None,
    k: int = EvaluationOptions.k,
    remove_empty: bool = EvaluationOptions.remove_empty,
    threshold: float | None = EvaluationOptions.threshold,
    resamples: int = EvaluationOptions.resamples,
    confidence: float = EvaluationOptions.confidence,
    seed: int = EvaluationOptions.seed,
    threads: int | None = EvaluationOptions.threads,
    **reading: Any,
) -> dict[str, Any]:
    """Evaluate the scores of a file against the true labels of another.

    Parameters
    ----------
    truth : str
        A file or a dataset's folder that `xpipe.formats` reads.
    scores : str
        A `.npz` file of scipy, a `.parquet` file with lists `indices` and `values`, or sparse text.
    split : str, default "test"
        The split of a folder.
    train : str, optional
        Labels of the training rows, in any form of `truth`. A folder given as `truth` has its own.
    dataset : str, optional
        A dataset whose usual propensity constants are taken, for PSP and PSnDCG.
    propensity : tuple of float, optional
        The propensity constants (A, B) instead.
    filter_labels : str, optional
        A file of pairs `row label` that do not count.
    k : int, default 5
        Metrics are measured at ranks 1..k.
    remove_empty : bool, default False
        Leave out rows without true labels.
    threshold : float, optional
        Also measure F1 of all predictions whose score reaches it.
    resamples : int, default 1000
        For intervals; 0 for none.
    confidence : float, default 0.95
        Of the intervals.
    seed : int, default 0
        For the intervals.
    threads : int, optional
        Default: one per usable core.
    **reading
        index_base, label_base, n_features and n_labels, for text without a header.

    Returns
    -------
    dict
        All results, as values that JSON can hold.

    Raises
    ------
    ConfigError
        For options that contradict each other.
    DataError
        For files that are missing or damaged, or do not fit each other.

    Examples
    --------
    >>> import os, tempfile
    >>> import scipy.sparse as sp
    >>> from xpipe.metrics import evaluate
    >>> folder = tempfile.mkdtemp()
    >>> truth, scores = os.path.join(folder, "Y.npz"), os.path.join(folder, "S.npz")
    >>> sp.save_npz(truth, sp.csr_matrix([[1.0, 0.0], [0.0, 1.0]]))
    >>> sp.save_npz(scores, sp.csr_matrix([[0.9, 0.1], [0.8, 0.2]]))
    >>> evaluate(truth, scores, k=2, resamples=0)["metrics"]["precision"]
    [0.5, 0.5]
    """
    if propensity is not None and dataset is not None:
        raise ConfigError("propensity constants are given twice", why="by value and by dataset", fix="leave one out")
    constants = usual_propensity(dataset) if dataset is not None else Constants(*propensity) if propensity else None
    known = read_truth(truth, split, **reading)
    if train is not None:
        known = _with_train(known, train, reading)
    n_rows, n_labels = known.labels.shape
    if filter_labels is not None:
        from xpipe.formats import read_filter_labels

        known = known._replace(filter_labels=read_filter_labels(filter_labels, n_rows=n_rows, n_labels=n_labels))
    given = read_scores(scores, n_labels)
    if given.shape != known.labels.shape:
        raise DataError(
            "scores and true labels do not have the same shape",
            where=f"{scores} and {truth}",
            why=f"scores are {given.shape[0]:,} rows x {given.shape[1]:,} labels, "
            f"true labels {n_rows:,} x {n_labels:,}",
            fix="predict for exactly these rows, and number labels as the true ones are numbered",
        )
    options = EvaluationOptions(k, constants, remove_empty, threshold, resamples, confidence, seed, threads)
    return {"truth": os.fspath(truth), "scores": os.fspath(scores), **evaluate_scores(given, known, options)}


def evaluate_scores(given: Any, known: Known, options: EvaluationOptions) -> dict[str, Any]:
    """`evaluate` for scores and true labels in memory."""
    frequency, counted_in = _frequency(known)
    weights, constants = _weights(known, options.constants)
    which: dict[str, Any] = {"filter_labels": known.filter_labels, "remove_empty": options.remove_empty}
    measured = measure(
        given, known.labels, options.k, inverse_propensity=weights, keep_rows=options.resamples > 0,
        threads=options.threads, **which,
    )  # fmt: skip
    results: dict[str, Any] = {
        "synthetic": known.synthetic,
        **_counts(measured, known),
        "propensity": None if constants is None else {"a": constants.a, "b": constants.b},
        "metrics": {name: getattr(measured, name).tolist() for name in METRICS if getattr(measured, name) is not None},
        "intervals": _intervals(measured, options) if options.resamples > 0 else None,
        "frequency_from": counted_in,
        "by_frequency": [dataclasses.asdict(group) for group in break_down(measured, frequency)],
    }
    if options.threshold is not None:
        above = f1_above(given, known.labels, options.threshold, **which)
        results["threshold"] = {"threshold": options.threshold, **above._asdict()}
    return results


def _counts(measured: Measured, known: Known) -> dict[str, int]:
    """How many rows, labels and filter pairs of each kind there are."""
    n_rows, n_labels = known.labels.shape
    return {
        "k": measured.k,
        "rows": n_rows,
        "labels": n_labels,
        "rows_measured": measured.n_rows,
        "rows_without_labels": measured.rows_without_labels,
        "rows_removed": measured.rows_removed,
        "tied_rows": measured.tied_rows,
        "short_rows": measured.short_rows,
        "filter_pairs": 0 if known.filter_labels is None else len(known.filter_labels),
        "filtered_true": measured.filtered_true,
        "labels_with_true_rows": int((measured.labels.true > 0).sum()),
        "labels_predicted": int((measured.labels.predicted[:, -1] > 0).sum()),
    }


def _intervals(measured: Measured, options: EvaluationOptions) -> dict[str, Any]:
    """The ends of the intervals of each metric at 1..k, and how they were made."""
    how = {"confidence": options.confidence, "resamples": options.resamples, "seed": options.seed}
    ends = intervals(measured, threads=options.threads, **how)  # type: ignore[arg-type]
    return {**how, **{name: value.T.tolist() for name, value in ends.items()}}


def _with_train(known: Known, train: str, reading: dict[str, Any]) -> Known:
    """The same truth with the labels of the training rows of a file."""
    labels = read_truth(train, "train", **reading).labels
    if labels.shape[1] != known.labels.shape[1]:
        raise DataError(
            "training and true labels are not the same labels",
            where=train,
            why=f"there are {labels.shape[1]:,} training and {known.labels.shape[1]:,} true labels",
            fix="give the training labels of the same dataset",
        )
    return known._replace(train_labels=labels)


def _frequency(known: Known) -> tuple[np.ndarray | None, str]:
    """(frequency of each label, or None for that in the rows measured; in which rows it was counted)."""
    if known.train_labels is not None:
        return label_frequency(known.train_labels), "training rows"
    if known.frequency is not None:
        return known.frequency, "training rows"
    return None, "the rows measured"


def _weights(known: Known, constants: Constants | None) -> tuple[np.ndarray | None, Constants | None]:
    """(inverse propensities, their constants); both None where there are no constants."""
    if constants is None:
        own = None if known.constants is None else Constants(*known.constants)
        return (known.inverse_propensity, own) if own is not None else (None, None)
    if known.train_labels is None:
        raise ConfigError(
            "propensities need the labels of the training rows",
            why="they come from how often each label occurs there",
            fix="give the training labels (train), or leave the constants out",
        )
    frequency = label_frequency(known.train_labels)
    return inverse_propensity(frequency, known.train_labels.shape[0], a=constants.a, b=constants.b), constants
