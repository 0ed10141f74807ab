"""One call from files to results: metrics with intervals, by label frequency, and everything that was odd on the way.

Holds no arithmetic and no table: `measuring`, `breakdown` and `bootstrap` compute, `tables` shows.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np

from xpipe.errors import ConfigError, DataError
from xpipe.metrics.bootstrap import intervals
from xpipe.metrics.breakdown import break_down
from xpipe.metrics.measuring import measure
from xpipe.metrics.propensity import FAMILIES, Constants, inverse_propensity, label_frequency, usual_propensity
from xpipe.metrics.ranking import f1_above
from xpipe.metrics.score_files import Known, read_scores, read_truth

METRICS = ("precision", "recall", "f1", "ndcg", "psp", "psndcg", "micro_f1", "macro_f1", "coverage")


def evaluate(
    truth: str,
    scores: str,
    *,
    k: int = 5,
    split: str = "test",
    train: str | None = None,
    dataset: str | None = None,
    propensity: tuple[float, float] | None = None,
    filter_labels: str | None = None,
    remove_empty: bool = False,
    threshold: float | None = None,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    threads: int | None = None,
    **reading: Any,
) -> dict[str, Any]:
    """Everything about the scores of a file against the true labels of another, as a dict that JSON can hold.

    truth: a file or a folder (its `split`) that `xpipe.formats` reads. scores: .npz of scipy, .parquet with lists
    `indices` and `values`, or sparse text. train: labels of the training rows, likewise; a folder given as truth has
    its own. propensity (A, B) or dataset, which has usual ones, for PSP and PSnDCG. filter_labels: a file of pairs
    `row label`. threshold: also F1 of all predictions that reach it. resamples: for intervals at `confidence`; 0: none.
    reading: index_base, label_base, n_features, n_labels, for text without a header.
    Raises ConfigError or DataError that say what to try.
    """
    if propensity is not None and dataset is not None:
        raise ConfigError("propensity constants are given twice", why="by value and by dataset", fix="leave one out")
    constants = usual_propensity(dataset) if dataset is not None else Constants(*propensity) if propensity else None
    known = read_truth(truth, split, **reading)
    if train is not None:
        known = _with_train(known, train, reading)
    n_rows, n_labels = known.labels.shape
    if filter_labels is not None:
        from xpipe.formats.names import read_filter_labels

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
    found = evaluate_scores(
        given, known, k=k, constants=constants, remove_empty=remove_empty, threshold=threshold, resamples=resamples,
        confidence=confidence, seed=seed, threads=threads,
    )  # fmt: skip
    return {"truth": os.fspath(truth), "scores": os.fspath(scores), **found}


def evaluate_scores(
    given: Any,
    known: Known,
    *,
    k: int = 5,
    constants: Constants | None = None,
    remove_empty: bool = False,
    threshold: float | None = None,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    threads: int | None = None,
) -> dict[str, Any]:
    """The same for scores and true labels in memory."""
    frequency, counted_in = _frequency(known)
    weights, constants = _weights(known, constants)
    n_rows, n_labels = known.labels.shape
    pairs = known.filter_labels
    options: dict[str, Any] = {"filter_labels": pairs, "remove_empty": remove_empty}
    measured = measure(
        given, known.labels, k, inverse_propensity=weights, keep_rows=resamples > 0, threads=threads, **options
    )
    values = {name: getattr(measured, name) for name in METRICS}
    results: dict[str, Any] = {
        "synthetic": known.synthetic,
        "k": measured.k,
        "rows": n_rows,
        "labels": n_labels,
        "rows_measured": measured.n_rows,
        "rows_without_labels": measured.rows_without_labels,
        "rows_removed": measured.rows_removed,
        "tied_rows": measured.tied_rows,
        "short_rows": measured.short_rows,
        "filter_pairs": 0 if pairs is None else len(pairs),
        "filtered_true": measured.filtered_true,
        "labels_with_true_rows": int((measured.labels.true > 0).sum()),
        "labels_predicted": int((measured.labels.predicted[:, -1] > 0).sum()),
        "propensity": None if constants is None else {"a": constants.a, "b": constants.b},
        "metrics": {name: value.tolist() for name, value in values.items() if value is not None},
        "intervals": None,
        "frequency_from": counted_in,
        "by_frequency": [dataclasses.asdict(group) for group in break_down(measured, frequency)],
    }
    if resamples > 0:
        ends = intervals(measured, resamples=resamples, confidence=confidence, seed=seed, threads=threads)
        results["intervals"] = {
            "confidence": confidence,
            "resamples": resamples,
            "seed": seed,
            **{name: value.T.tolist() for name, value in ends.items()},
        }
    if threshold is not None:
        above = f1_above(given, known.labels, threshold, **options)
        results["threshold"] = {"threshold": threshold, **above._asdict()}
    return results


def _with_train(known: Known, train: str, reading: dict[str, Any]) -> Known:
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
    """(how often each label occurs, in which rows); None: as often as in the rows measured."""
    if known.train_labels is not None:
        return label_frequency(known.train_labels), "training rows"
    if known.frequency is not None:
        return known.frequency, "training rows"
    return None, "the rows measured"


def _weights(known: Known, constants: Constants | None) -> tuple[np.ndarray | None, Constants | None]:
    """(inverse propensities, their constants); both None where nobody asked for them."""
    if constants is None:
        own = None if known.constants is None else Constants(*known.constants)
        return (known.inverse_propensity, own) if own is not None else (None, None)
    if known.train_labels is None:
        raise ConfigError(
            "propensities need the labels of the training rows",
            why="they come from how often each label occurs there",
            fix="--train train.txt, or leave the constants out",
        )
    frequency = label_frequency(known.train_labels)
    return inverse_propensity(frequency, known.train_labels.shape[0], a=constants.a, b=constants.b), constants


def propensity_hint(results: dict[str, Any]) -> str:
    """What to do to get PSP, or nothing where it is there."""
    if results["propensity"] is not None:
        return ""
    return f"no PSP: it needs training labels (--train) and constants (--dataset NAME, or --propensity A B: {FAMILIES})"
