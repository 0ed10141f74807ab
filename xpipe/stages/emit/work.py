"""Rows of the emitted datasets, a chunk at a time: labels from their source, filtered, normalised, shuffled, written.

Runs at workers; knows nothing of Dask.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from xpipe.errors import StageError
from xpipe.formats.parquet import write_dataset_part, write_label_embedding
from xpipe.formats.parts import PartedMatrix, slice_rows, take_rows
from xpipe.ground import files
from xpipe.ground.seeding import permutation
from xpipe.ground.sparse import Triple, row_norms, to_matrix, to_triple
from xpipe.grouping.groups import spread_labels
from xpipe.stages.arrays import read_array
from xpipe.stages.matrices import open_matrix

FREQUENCY = "survey/frequency.npy"
ORDER = "survey/order.npy"  # of the labels of heads/, where the params ask for another than the original one
PERCENTILES = (50, 90, 95, 99, 100)


class LabelRows:
    """Training or held-out labels by row, whatever they are made from."""

    def __init__(self, shared: dict, split: str):
        source = shared["train_labels"]
        self.spread = split == "train" and source["kind"] == "groups"
        if split != "train":
            self.matrix = open_matrix(shared["held_out_labels"], split)
        elif self.spread:
            self.matrix = open_matrix(source["membership"], "train")
            self.group_labels = _load_matrix(*source["group_labels"])
        else:
            self.matrix = open_matrix(source["matrix"], "train")

    def of(self, rows: Triple) -> Triple:
        if not self.spread:
            return rows
        return to_triple(spread_labels(to_matrix(rows, self.matrix.n_columns), self.group_labels))

    def parts(self) -> Iterator[Triple]:
        for _, triple in self.matrix.parts():
            yield self.of(triple)


@lru_cache(maxsize=2)
def _load_matrix(folder: str, name: str) -> Any:
    stored = open_matrix([folder, name], "train")
    return to_matrix(stored.load(), stored.n_columns)


def survey(folder: str, shared: dict) -> tuple[list[dict], dict]:
    """Label frequencies and set sizes, before anything is written: which labels stay, how large k is, what is lost."""
    import hashlib
    import io

    n_labels = shared["n_labels"]
    frequency = np.zeros(n_labels, dtype=np.int64)
    sizes: list[np.ndarray] = []
    for labels in LabelRows(shared, "train").parts():
        frequency += np.bincount(labels.indices, minlength=n_labels)
        sizes.append(np.diff(labels.indptr))
    set_sizes = np.concatenate(sizes) if sizes else np.zeros(0, dtype=np.int64)
    kept = frequency > 0
    drop = shared["params"]["rows_without_labels"] == "drop"
    empty = {"train": int((set_sizes == 0).sum())}
    if drop:
        set_sizes = set_sizes[set_sizes > 0]
    rows = {"train": len(set_sizes)}
    unseen = {}
    for split in shared["splits"]:
        if split == "train":
            continue
        n_rows, n_empty, n_unseen = 0, 0, 0
        for labels in LabelRows(shared, split).parts():
            kept_before = np.concatenate([[0], np.cumsum(kept[labels.indices])])
            left = np.diff(kept_before[labels.indptr])
            n_rows += labels.n_rows
            n_empty += int((left == 0).sum())
            n_unseen += int((~kept[labels.indices]).sum())
        rows[split] = n_rows - n_empty if drop else n_rows
        empty[split], unseen[split] = n_empty, n_unseen
    buffer = io.BytesIO()
    np.save(buffer, frequency, allow_pickle=False)
    content = buffer.getvalue()
    files.write_bytes(files.join(folder, FREQUENCY), content)
    entry = {"path": FREQUENCY, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    facts = {
        "rows": rows,
        "labels_kept": int(kept.sum()),
        "k": int(set_sizes.max()) if len(set_sizes) else 0,
        "k_percentiles": {str(p): float(np.percentile(set_sizes, p)) if len(set_sizes) else 0.0 for p in PERCENTILES},
        "labels_a_row": round(float(set_sizes.mean()), 4) if len(set_sizes) else 0.0,
        "filtered": {
            "labels_without_positives": int((~kept).sum()),
            "held_out_occurrences_of_these": unseen,
            "rows_without_labels": {"action": "dropped" if drop else "kept", **empty},
        },
    }
    return [entry], facts


def has_own_order(dataset: str, shared: dict) -> bool:
    """Whether the labels of this dataset are in the order of ORDER."""
    return dataset == "heads" and shared["params"]["label_order"] != "original"


@lru_cache(maxsize=4)
def kept_labels(folder: str, ordered: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """(original numbers, frequencies) of the labels that stay, in the order of their new numbers."""
    frequency = read_array(folder, FREQUENCY)
    original = np.flatnonzero(frequency > 0)
    if ordered:
        original = original[read_array(folder, ORDER)]
    return original, frequency[original]


@lru_cache(maxsize=4)
def label_map(folder: str, ordered: bool = False) -> np.ndarray:
    """New number of each original label; -1 for the filtered ones."""
    original, _ = kept_labels(folder, ordered)
    numbers = np.full(len(read_array(folder, FREQUENCY)), -1, dtype=np.int32)
    numbers[original] = np.arange(len(original))
    return numbers


def renumber_labels(labels: Triple, numbers: np.ndarray) -> Triple:
    """Labels under their new numbers, ascending in every row; filtered ones go."""
    mapped = numbers[labels.indices]
    keep = mapped >= 0
    indptr = np.concatenate([[0], np.cumsum(keep)])[labels.indptr].astype(np.int64)
    mapped, values = mapped[keep], labels.values[keep]
    if (np.diff(numbers[numbers >= 0]) < 0).any():  # another order than the labels had
        order = np.lexsort((mapped, np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))))
        mapped, values = mapped[order], values[order]
    return Triple(indptr, mapped, values)


def normalise_rows(features: Triple) -> Triple:
    """Rows of length 1 (rows of zeros stay); computed in float64, so the order of work changes nothing."""
    norms = row_norms(features)
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    values = features.values.astype(np.float64) * np.repeat(scale, np.diff(features.indptr))
    return features._replace(values=values.astype(np.float32))


def write_vectors(folder: str, unit: dict, shared: dict) -> dict:
    """One file of label vectors: those of the labels that stay, under their new numbers."""
    stored = open_matrix(shared["embedding"], "labels")
    labels, rows = stored.part(unit["index"])
    numbers = label_map(folder)[labels]
    kept = np.flatnonzero(numbers >= 0)
    path = f"datasets/tree/label_embedding/part-{unit['index']:05d}.parquet"
    target = files.join(folder, path)
    facts = write_label_embedding(target, numbers[kept], take_rows(rows, kept), stored.n_columns)
    return {"path": path, **facts}


def emitted_rows(
    folder: str, shared: dict, split: str, rows: np.ndarray, ordered: bool = False
) -> tuple[np.ndarray, Triple, Triple]:
    """(samples, features, labels) of the rows asked for, labels renumbered; rows dropped where the params say so."""
    features: PartedMatrix = open_matrix(shared["features"], split)
    source = LabelRows(shared, split)
    samples, taken = features.take(rows)
    label_samples, own = source.matrix.take(rows)
    if not np.array_equal(samples, label_samples):
        raise StageError(f"features and labels of split {split} are not of the same samples", fix="xpipe clean --all")
    labels = renumber_labels(source.of(own), label_map(folder, ordered))
    if shared["params"]["rows_without_labels"] == "drop":
        keep = np.flatnonzero(np.diff(labels.indptr) > 0)
        samples, taken, labels = samples[keep], take_rows(taken, keep), take_rows(labels, keep)
    return samples, taken, labels


def dataset_parts(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[dict, dict]]:
    """Write the files of tree/ and heads/. Shuffled units are gathered together: one sweep over the inputs for all."""
    shuffled = [unit for unit in units if unit["dataset"] == "heads" and unit["split"] == "train"]
    for unit in units:
        if unit not in shuffled:
            yield from _write_files(folder, [unit], shared, np.arange(unit["start"], unit["start"] + unit["rows"]))
    if not shuffled:
        return
    order = permutation(open_matrix(shared["features"], "train").n_rows, shared["seed"], "emit", "heads")
    wanted = [order[unit["start"] : unit["start"] + unit["rows"]] for unit in shuffled]
    if shared["params"]["rows_without_labels"] == "keep":
        yield from _write_files(folder, shuffled, shared, np.concatenate(wanted))
    else:  # dropped rows would move the cuts between files gathered together
        for unit, rows in zip(shuffled, wanted, strict=True):
            yield from _write_files(folder, [unit], shared, rows)


def _write_files(folder: str, units: list[dict], shared: dict, rows: np.ndarray) -> Iterator[tuple[dict, dict]]:
    """The rows of some units of one dataset and split, read together and cut into their files."""
    dataset, split = units[0]["dataset"], units[0]["split"]
    samples, features, labels = emitted_rows(folder, shared, split, rows, has_own_order(dataset, shared))
    if dataset == "tree":
        features = normalise_rows(features)
    start = 0
    for unit in units:
        stop = len(samples) if len(units) == 1 else start + unit["rows"]
        path = f"datasets/{dataset}/split={split}/part-{unit['index']:05d}.parquet"
        facts = write_dataset_part(
            files.join(folder, path),
            samples[start:stop],
            slice_rows(features, start, stop),
            slice_rows(labels, start, stop),
            n_features=shared["n_features"],
            n_labels=shared["facts"]["labels_kept"],
            row_group=shared["params"]["row_group"] if dataset == "heads" else 65536,
        )
        yield unit, {"path": path, "dataset": dataset, "split": split, **facts}
        start = stop
