"""What stands beside the emitted rows: labels.parquet and dataset.json. Runs at a worker; writes no rows."""

from __future__ import annotations

import hashlib
import math

import numpy as np

from xpipe.formats.parquet import DATASET_FORMAT, write_labels
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json
from xpipe.metrics.propensity import propensity_formula
from xpipe.stages.emit.work import has_own_order, kept_labels


def initial_bias(n_labels: int, k: int) -> float | None:
    """First entry of a DFT head's projection bias, sqrt(n) logit(k/n), so that training starts at probability k/n."""
    if not 0 < k < n_labels:
        return None
    return math.sqrt(n_labels) * math.log(k / (n_labels - k))


def label_names(shared: dict) -> list[str] | None:
    """Names of the original labels, where the data has them."""
    import json

    folder, name = shared["names"]
    path = files.join(folder, name, "labels.json")
    return json.loads(files.read_bytes(path)) if files.exists(path) else None


def describe_dataset(folder: str, unit: dict, shared: dict) -> tuple[list[dict], dict]:
    """Write labels.parquet and dataset.json of tree/ or heads/; gives their files and a summary."""
    dataset, facts, params = unit["unit"], shared["facts"], shared["params"]
    original, frequency = kept_labels(folder, has_own_order(dataset, shared))
    names = label_names(shared)
    columns: dict[str, np.ndarray | list] = {
        "label": np.arange(len(original), dtype=np.int32),
        "original_label": original.astype(np.int32),
        "name": [names[label] for label in original] if names else [None] * len(original),
        "frequency": frequency,
        "inverse_propensity": propensity_formula(
            frequency, facts["rows"]["train"], params["propensity_a"], params["propensity_b"]
        ),
    }
    top = f"datasets/{dataset}"
    labels_entry = {"path": f"{top}/labels.parquet", **write_labels(files.join(folder, top, "labels.parquet"), columns)}
    splits: dict[str, dict] = {}
    for part in unit["parts"]:
        listed = splits.setdefault(part["split"], {"rows": 0, "parts": []})
        listed["rows"] += part["rows"]
        entry = {key: part[key] for key in ("rows", "bytes", "sha256")}
        listed["parts"].append({"path": part["path"].removeprefix(top + "/"), **entry})
    about = {
        "format": DATASET_FORMAT,
        "dataset": dataset,
        "n_features": shared["n_features"],
        "n_labels": facts["labels_kept"],
        "n_original_labels": shared["n_labels"],
        "splits": splits,
        "labels": {"path": "labels.parquet", "sha256": labels_entry["sha256"]},
        "labels_from": shared["train_labels"]["sentence"],
        "label_scores": shared["train_labels"]["scores"],  # posterior, similarity or none: all 1
        "labels_a_row": facts["labels_a_row"],
        "k": facts["k"],
        "k_percentiles": facts["k_percentiles"],
        "filtered": facts["filtered"],
        "propensity": {"a": params["propensity_a"], "b": params["propensity_b"]},
        "rows_normalised": dataset == "tree",
        "shuffled": dataset == "heads",
        "synthetic": shared["synthetic"],
        "provenance": unit["provenance"],
    }
    if unit.get("vectors"):
        vectors = [{**part, "path": part["path"].removeprefix(top + "/")} for part in unit["vectors"]]
        about["label_embedding"] = {"parts": vectors}
    if dataset == "heads":
        about["label_order"] = params["label_order"]
        if "sign_changes" in facts:
            about["sign_changes"] = facts["sign_changes"]
        about["dft_initial_bias"] = initial_bias(facts["labels_kept"], facts["k"])
    content = dump_json(about)
    path = f"{top}/dataset.json"
    files.write_bytes(files.join(folder, path), content)
    entry = {"path": path, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    size = sum(part["bytes"] for part in unit["parts"])
    return [labels_entry, entry], {"rows": {split: s["rows"] for split, s in splits.items()}, "bytes": size}
