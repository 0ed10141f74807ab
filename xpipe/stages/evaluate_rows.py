"""Predictions at a worker, in the numbers the labels had when they were read, and all metrics of them.

Labels that training never saw stay true labels here: nobody can predict them, and that counts.
"""

from __future__ import annotations

import time
from functools import lru_cache

import numpy as np
import pyarrow.parquet as pq
import scipy.sparse as sp

from xpipe import files
from xpipe.formats.parts import concatenate, read_part, write_part
from xpipe.sparse import canonical, to_matrix, to_triple
from xpipe.stages.matrices import open_matrix
from xpipe.stages.read_rows import entry_of
from xpipe.store import dump_json
from xpipe.trees import LabelTree


@lru_cache(maxsize=1)
def _model(path: str) -> LabelTree:
    return LabelTree.load(path)


@lru_cache(maxsize=1)
def _original_labels(dataset: str) -> np.ndarray:
    import io

    content = files.read_bytes(files.join(dataset, "labels.parquet"))
    return pq.read_table(io.BytesIO(content), columns=["original_label"])["original_label"].to_numpy()


def predict(folder: str, unit: dict, shared: dict) -> tuple[list[dict], dict]:
    """The k best labels of one part's rows."""
    params = shared["params"]
    stored = open_matrix(shared["features"], params["split"])
    samples, rows = stored.part(unit["index"])
    model = _model(shared["model"])
    started = time.perf_counter()
    found = to_triple(model.predict(to_matrix(rows, stored.n_columns), k=params["k"], beam=params["beam"], threads=1))
    seconds = time.perf_counter() - started
    numbered = found._replace(indices=_original_labels(shared["dataset"])[found.indices])
    facts = write_part(files.join(folder, unit["path"]), samples, numbered)
    return [{"path": unit["path"], "split": params["split"], **facts}], {"seconds": seconds}


def measure(folder: str, shared: dict) -> tuple[list[dict], dict]:
    """Every metric, written as evaluation.json; gives those a table shows."""
    from xpipe.metrics.evaluation import evaluate_scores
    from xpipe.metrics.propensity import Constants
    from xpipe.metrics.score_files import Known

    params, n_labels = shared["params"], shared["n_labels"]
    scores = to_matrix(concatenate([read_part(files.join(folder, path))[1] for path in shared["scores"]]), n_labels)
    train = _labels(shared["train_truth"], "train", n_labels) if shared["train_truth"] else None
    known = Known(
        _labels(shared["truth"], params["split"], n_labels), train_labels=train, synthetic=shared["synthetic"]
    )
    constants = Constants(params["propensity_a"], params["propensity_b"]) if train is not None else None
    results = evaluate_scores(
        canonical(scores, "scores"), known, k=params["k"], constants=constants, remove_empty=params["remove_empty"],
        resamples=params["resamples"], seed=shared["seed"],
    )  # fmt: skip
    entry = entry_of(folder, "evaluation/evaluation.json", dump_json(results))
    shown = {
        name: [round(100 * value, 3) for value in values]
        for name, values in results["metrics"].items()
        if name in ("precision", "ndcg", "psp", "recall", "f1")
    }
    return [entry], {**shown, "predict_seconds": round(shared["predict_seconds"], 3)}


def _labels(where: list[str], split: str, n_labels: int) -> sp.csr_matrix:
    stored = open_matrix(where, split)
    return canonical(to_matrix(stored.load(), n_labels), "labels")
