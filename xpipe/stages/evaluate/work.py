"""What a worker does in stage evaluate: it predicts, with the label numbers of the data as read, and measures.

Holds no metric. Labels that training never saw remain true labels here: no model can predict them, and they count as
misses.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from xpipe.engine.messages import FileEntry, Finished, Unit, write_entry
from xpipe.formats.parquet_files import read_columns
from xpipe.formats.parts import read_part
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json
from xpipe.ground.sparse import Triple, canonical, to_matrix, to_triple
from xpipe.ground.sparse_rows import concatenate, slice_rows, sort_rows
from xpipe.metrics.assessment import assess
from xpipe.metrics.evaluation import EvaluationOptions, evaluate_scores
from xpipe.metrics.propensity import label_frequency
from xpipe.metrics.propensity_constants import Constants
from xpipe.metrics.score_files import Known
from xpipe.stages.emitted_paths import EVALUATION_FILE, LABELS_FILE
from xpipe.stages.evaluate.messages import (
    Figures,
    ModelToMeasure,
    PartToPredict,
    Predicted,
    Prediction,
    ReportToJoin,
    TreeToEvaluate,
    Truth,
)
from xpipe.stages.matrices import MatrixRef, open_matrix, write_matrix_part
from xpipe.trees import LabelTree
from xpipe.trees.prediction import MOST_ROWS
from xpipe.trees.storing import read_forest

if TYPE_CHECKING:
    from xpipe.heads import HeadModel

TABLES = ("reliability", "by_frequency")  # of the calibration; only the report has them
FORMAT = 1  # of evaluation.json; metrics are shares between 0 and 1
SHOWN = ("precision", "ndcg", "psp", "recall", "f1", "micro_f1", "macro_f1")


@lru_cache(maxsize=1)
def _tree(path: str) -> LabelTree:
    """The forest of a file of the store; a process keeps the last one. Its weights are those of all workers here."""
    return LabelTree.of(*read_forest(path, mapped=True))


@lru_cache(maxsize=1)
def _head(path: str) -> HeadModel:
    """The head of a folder; a process keeps the last one."""
    from xpipe.heads import HeadModel  # PyTorch may not be installed where only a tree is evaluated

    return HeadModel.load(path)


@lru_cache(maxsize=2)
def _original_labels(dataset: str) -> np.ndarray:
    """The number as read of each label of an emitted dataset."""
    table = read_columns(files.join(dataset, LABELS_FILE), [("original_label", pa.int32())])
    original: np.ndarray = table["original_label"].to_numpy()
    return original


def predict_parts(
    folder: str, units: Sequence[PartToPredict], shared: Prediction
) -> Iterator[tuple[PartToPredict, Finished[Predicted]]]:
    """Predict the best labels of some parts' rows: scores to rank by and, if these are logits, probabilities.

    A large tree reads all of its weights for any number of rows, so it predicts several parts at once.
    """
    k = max(shared.params.k, shared.params.calibration_k)
    stored = open_matrix(shared.features, shared.params.split)
    for some in _predicted_together(units):
        model, parts = some[0].model, [stored.part(unit.index) for unit in some]
        X = to_matrix(concatenate([rows for _, rows in parts]), stored.n_columns)
        started = time.perf_counter()
        if isinstance(model, TreeToEvaluate):
            matrices = [_tree(model.path).predict(X, k=k, beam=shared.params.beam, threads=1)]
        else:
            matrices = _predict_with_head(model.path, X, k)
        per_row = (time.perf_counter() - started) / max(X.shape[0], 1)
        found = [_renumbered(to_triple(matrix), _original_labels(model.dataset)) for matrix in matrices]
        first = 0
        for unit, (samples, rows) in zip(some, parts, strict=True):
            inside = [slice_rows(scores, first, first + rows.n_rows) for scores in found]
            yield unit, Finished(_write_scores(folder, unit, shared, samples, inside), Predicted(per_row * rows.n_rows))
            first += rows.n_rows


def _predicted_together(units: Sequence[PartToPredict]) -> Iterator[list[PartToPredict]]:
    """Parts that are predicted at once: of one tree, as many as have up to `MOST_ROWS` rows; of a head, one."""
    some: list[PartToPredict] = []
    for unit in units:
        fits = sum(other.size for other in some) + unit.size <= MOST_ROWS
        if some and not (fits and unit.model == some[0].model and isinstance(unit.model, TreeToEvaluate)):
            yield some
            some = []
        some.append(unit)
    if some:
        yield some


def _write_scores(
    folder: str, unit: PartToPredict, shared: Prediction, samples: np.ndarray, found: Sequence[Triple]
) -> tuple[FileEntry, ...]:
    """Write what was predicted for a part, one file per kind of scores."""
    return tuple(
        write_matrix_part(folder, f"scores/{unit.model.name}/{kind}", shared.params.split, unit.index, samples, scores)
        for kind, scores in zip(unit.model.score_kinds, found, strict=True)
    )


def _predict_with_head(path: str, X: sp.csr_matrix, k: int) -> list[sp.csr_matrix]:
    """[logits, probabilities] of the k best labels of each row."""
    from xpipe.heads import matrix_batches
    from xpipe.heads.device import fixed_threads
    from xpipe.heads.model import as_matrix

    model = _head(path)
    with fixed_threads(1):  # more threads would add up in another order
        found = model.rank(matrix_batches(X), k)
    return [as_matrix(found.labels, values, model.head.n_labels) for values in found[1:]]


def _renumbered(found: Triple, original: np.ndarray) -> Triple:
    """The same scores with the label numbers of the data as read, ascending in each row."""
    return sort_rows(found._replace(indices=original[found.indices].astype(np.int32)))


def measure_model(folder: str, unit: ModelToMeasure, shared: Truth) -> Finished[Figures]:
    """Write every metric of one model to a file. Gives the figures that tables show."""
    _tree.cache_clear()  # all rows are predicted: a large model would stand beside all scores
    _head.cache_clear()
    params, n_labels = shared.params, shared.n_labels
    scores = _read_scores(folder, unit.scores, n_labels)
    chances = _read_scores(folder, unit.probabilities, n_labels)
    train = None if shared.train_labels is None else _labels(shared.train_labels, "train", n_labels)
    truth = _labels(shared.labels, params.split, n_labels)
    known = Known(truth, train_labels=train, synthetic=shared.synthetic)
    constants = Constants(params.propensity_a, params.propensity_b) if train is not None else None
    options = EvaluationOptions(
        k=params.k, constants=constants, remove_empty=params.remove_empty, resamples=params.resamples, seed=shared.seed
    )
    results = evaluate_scores(scores, known, options)
    frequency = None if train is None else label_frequency(train)
    calibration = assess(chances, truth, params.calibration_k, bins=params.calibration_bins, frequency=frequency)
    content = dump_json({**unit.model.about(), **results, "calibration": calibration})
    entry = write_entry(folder, f"measured/{unit.model.name}.json", content)
    shown = {
        name: [round(value, 5) for value in values] for name, values in results["metrics"].items() if name in SHOWN
    }
    confidence = {name: value for name, value in calibration.items() if name not in TABLES}
    return Finished((entry,), Figures(shown, confidence))


def join_reports(folder: str, unit: Unit, shared: ReportToJoin) -> Finished[None]:
    """Write evaluation.json with all models."""
    models = [json.loads(files.read_bytes(files.join(folder, path))) for path in shared.reports]
    about = {"format": FORMAT, "split": shared.split, "synthetic": shared.synthetic}
    content = dump_json({**about, "models": models})
    return Finished((write_entry(folder, f"evaluation/{EVALUATION_FILE}", content),), None)


def _read_scores(folder: str, paths: Sequence[str], n_labels: int) -> sp.csr_matrix:
    """The scores of all parts."""
    rows = concatenate([read_part(files.join(folder, path))[1] for path in paths])
    return canonical(to_matrix(rows, n_labels), "scores")


def _labels(where: MatrixRef, split: str, n_labels: int) -> sp.csr_matrix:
    """The labels of a split."""
    stored = open_matrix(where, split)
    return canonical(to_matrix(stored.load(), n_labels), "labels")
