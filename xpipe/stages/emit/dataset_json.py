"""The files beside the emitted rows: labels.parquet, dataset.json, README.md, croissant.json. Runs at a worker.

Holds no writing of rows, and no words about the data: those are `formats.dataset_story`.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from xpipe.engine.messages import FileEntry, Finished, Unit, write_entry
from xpipe.formats.croissant import describe_in_croissant
from xpipe.formats.dataset_card import write_card
from xpipe.formats.dataset_story import Told, tell_story
from xpipe.formats.emitted import DATASET_FORMAT
from xpipe.formats.parquet_writing import CANDIDATE_COLUMNS, DATASET_COLUMNS, write_labels
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json
from xpipe.metrics.propensity import propensity_formula
from xpipe.stages.emit.facts import EmitFacts
from xpipe.stages.emit.label_survey import kept_labels
from xpipe.stages.emit.work import ids_of
from xpipe.stages.emitted_paths import CARD_FILE, CROISSANT_FILE, LABELS_FILE, dataset_path, inside_dataset
from xpipe.stages.matrices import MatrixRef

ABOUT = "dataset.json"


@dataclass(frozen=True)
class Provenance:
    """How a dataset was made: digests of the input artifacts, canonical params, seed, releases of the packages."""

    inputs: dict[str, str]
    parameters: dict[str, Any]
    seed: int
    versions: dict[str, str]


@dataclass(frozen=True)
class WrittenDataset(Unit):
    """A dataset of which all rows are written; the unit has its name, tree or heads. vectors: only tree has them."""

    parts: tuple[FileEntry, ...]
    vectors: tuple[FileEntry, ...]
    provenance: Provenance


@dataclass(frozen=True)
class DatasetSize:
    """Rows of each split, and bytes of all rows."""

    rows: dict[str, int]
    bytes: int


def describe_dataset(folder: str, unit: WrittenDataset, shared: EmitFacts) -> Finished[DatasetSize]:
    """Write labels.parquet, dataset.json, README.md and croissant.json of tree/ or heads/."""
    labels = _write_label_table(folder, unit.name, shared)
    splits = _list_splits(unit)
    about = {**_about_all(unit, shared, splits, labels), **_about_vectors(unit)}
    if unit.name == "heads":
        about |= _about_heads(shared)
    about_entry = write_entry(folder, dataset_path(unit.name, ABOUT), dump_json(about))
    rows = {split: listed["rows"] for split, listed in splits.items()}
    beside = _write_cards(folder, unit, about, shared)
    return Finished((labels, about_entry, *beside), DatasetSize(rows, sum(part.bytes for part in unit.parts)))


def _write_label_table(folder: str, dataset: str, shared: EmitFacts) -> FileEntry:
    """Write labels.parquet: original number, name, frequency and inverse propensity of each kept label."""
    params = shared.inputs.params
    original, frequency = kept_labels(folder, params.reorders_labels(dataset))
    names = label_names(shared.inputs.names)
    columns: dict[str, np.ndarray | list[Any]] = {
        "label": np.arange(len(original), dtype=np.int32),
        "original_label": original.astype(np.int32),
        "name": [names[label] for label in original] if names else [None] * len(original),
        "frequency": frequency,
        "inverse_propensity": propensity_formula(
            frequency, shared.survey.rows["train"], params.propensity_a, params.propensity_b
        ),
    }
    path = dataset_path(dataset, LABELS_FILE)
    return FileEntry(path, **write_labels(files.join(folder, path), columns))


def _write_cards(folder: str, unit: WrittenDataset, about: dict[str, Any], shared: EmitFacts) -> list[FileEntry]:
    """Write what tells people and machines about the dataset: README.md and croissant.json."""
    card = shared.inputs.params.card
    told = Told(**card.model_dump()) if card else Told()
    columns, story = _row_columns(shared), tell_story(about, told)
    contents = {
        CARD_FILE: write_card(about, columns, story, told),
        CROISSANT_FILE: dump_json(describe_in_croissant(about, columns, story, told)),
    }
    return [write_entry(folder, dataset_path(unit.name, name), content) for name, content in contents.items()]


def _row_columns(shared: EmitFacts) -> list[str]:
    """The columns of the rows: those of every dataset and, where the data is a table, ids and groups."""
    none = np.zeros(0, np.int64)
    matrices = [*DATASET_COLUMNS, *(CANDIDATE_COLUMNS if shared.inputs.candidates else [])]
    return [*(name for name, _ in matrices), *ids_of(shared.inputs, "train", none, none).schema.names]


def label_names(names: MatrixRef) -> list[str] | None:
    """Names of the original labels from the artifact `names`, where the data has them."""
    path = files.join(names.folder, names.name, "labels.json")
    if not files.exists(path):
        return None
    listed: list[str] = json.loads(files.read_bytes(path))
    return listed


def _list_splits(unit: WrittenDataset) -> dict[str, dict[str, Any]]:
    """Rows and parts of each split, as dataset.json lists them."""
    splits: dict[str, dict[str, Any]] = {}
    for part in unit.parts:
        listed = splits.setdefault(str(part.split), {"rows": 0, "parts": []})
        listed["rows"] += part.rows
        listed["parts"].append(_listed_part(unit.name, part))
    return splits


def _listed_part(dataset: str, part: FileEntry) -> dict[str, Any]:
    """A part, as dataset.json lists it."""
    path = inside_dataset(dataset, part.path)
    return {"path": path, "rows": part.rows, "bytes": part.bytes, "sha256": part.sha256}


def _about_all(unit: WrittenDataset, shared: EmitFacts, splits: dict[str, Any], labels: FileEntry) -> dict[str, Any]:
    """The keys of dataset.json that tree/ and heads/ both have."""
    inputs, survey = shared.inputs, shared.survey
    candidates = {} if inputs.candidates is None else {"candidates": survey.candidates}
    return {
        "format": DATASET_FORMAT,
        "dataset": unit.name,
        "n_features": inputs.n_features,
        "n_labels": survey.labels_kept,
        "n_original_labels": inputs.n_labels,
        "splits": splits,
        "labels": {"path": LABELS_FILE, "sha256": labels.sha256},
        "labels_from": inputs.train_labels.sentence,
        "label_scores": inputs.train_labels.scores,
        **candidates,
        "labels_a_row": survey.labels_per_row,
        "k": survey.k,
        "k_percentiles": survey.k_percentiles,
        "filtered": survey.filtered(),
        "propensity": {"a": inputs.params.propensity_a, "b": inputs.params.propensity_b},
        "rows_normalised": unit.name == "tree",
        "shuffled": unit.name == "heads",
        "synthetic": inputs.synthetic,
        "provenance": asdict(unit.provenance),
    }


def _about_vectors(unit: WrittenDataset) -> dict[str, Any]:
    """The key of dataset.json for the label vectors, where there are any."""
    if not unit.vectors:
        return {}
    return {"label_embedding": {"parts": [_listed_part(unit.name, part) for part in unit.vectors]}}


def _about_heads(shared: EmitFacts) -> dict[str, Any]:
    """The keys of dataset.json that only heads/ has."""
    changes = {} if shared.sign_changes is None else {"sign_changes": asdict(shared.sign_changes)}
    return {
        "label_order": shared.inputs.params.label_order,
        **changes,
        "dft_initial_bias": initial_bias(shared.survey.labels_kept, shared.survey.k),
    }


def initial_bias(n_labels: int, k: int) -> float | None:
    """The first entry of a DFT head's projection bias, sqrt(n) logit(k/n): training starts at probability k/n.

    None where k is 0, or all labels.
    """
    if not 0 < k < n_labels:
        return None
    return math.sqrt(n_labels) * math.log(k / (n_labels - k))
