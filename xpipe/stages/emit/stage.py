"""Stage emit: features and labels become the datasets that trainers load. Surveys labels, writes parts, then the facts.

Orchestration only: rows come from `emit_rows`, files are written by `formats`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from xpipe.engine.stage import Estimate, Outlook, Params, Produced, Stage, canonical_params
from xpipe.errors import ConfigError, XpipeError
from xpipe.ground import files
from xpipe.stages.matrices import entries_of, locate, part_rows, rows_of, splits_of

DATASETS = "datasets"


class EmitParams(Params):
    """Section `emit`: which datasets to write."""

    datasets: list[Literal["tree", "heads"]] = ["tree", "heads"]
    formats: list[Literal["parquet", "xmc", "npz", "svmlight"]] = ["parquet"]
    label_order: Literal["original", "cooccurrence"] = "original"  # of heads/; the latter has fewest sign changes
    rows_without_labels: Literal["keep", "drop"] = "keep"
    row_group: int = Field(default=256, ge=1)  # rows of a Parquet row group in heads/: one minibatch
    propensity_a: float = Field(default=0.55, gt=0)
    propensity_b: float = Field(default=1.5, gt=0)

    @field_validator("datasets", "formats")
    @classmethod
    def _no_twins(cls, names: list[str]) -> list[str]:
        if len(set(names)) < len(names):
            raise ValueError("has a name twice")
        return names

    @field_validator("formats")
    @classmethod
    def _some_format(cls, names: list[str]) -> list[str]:
        if not names:
            raise ValueError("must name at least one of parquet, xmc, npz, svmlight")
        return names

    @model_validator(mode="after")
    def _some_dataset(self) -> Self:
        if "parquet" in self.formats and not self.datasets:
            raise ValueError("`datasets` must name tree, heads or both where `formats` has parquet")
        return self

    def writes_dataset(self, name: str) -> bool:
        """Whether the folder tree/ or heads/ comes of it: they are Parquet."""
        return name in self.datasets and "parquet" in self.formats


def dataset_problem(name: str, wanted_by: str, outlook: Outlook) -> list[XpipeError]:
    """Why a later stage cannot have tree/ or heads/; empty where it can (or where there is no emit at all)."""
    emit = outlook.sections.get("emit")
    if emit is None or emit.writes_dataset(name):
        return []
    both = [each for each in ("tree", "heads") if each in (*emit.datasets, name)]
    return [
        ConfigError(
            f"{wanted_by} the emitted {name}/ dataset, which this pipeline does not write",
            where="emit.datasets" if name not in emit.datasets else "emit.formats",
            fix=f"emit: {{datasets: [{', '.join(both)}], formats: [parquet]}}",
        )
    ]


def identity(params: EmitParams, inputs: dict, store: Any) -> dict:
    """dataset.json tells which release of xpipe wrote it."""
    from xpipe import __version__

    return {**canonical_params(params), "xpipe": __version__}


def label_source(inputs: dict) -> dict:
    """Where the training labels come from (assigned, spread over groups, or as read), with a sentence for people."""
    if "assigned_labels" in inputs:
        assigned = inputs["assigned_labels"]
        scores = assigned.about["scores"]
        return {"kind": "matrix", "matrix": locate(assigned), "scores": scores, "sentence": "assigned labels"}
    if "membership" in inputs:
        return {
            "kind": "groups",
            "membership": locate(inputs["membership"]),
            "group_labels": locate(inputs["group_labels"]),
            "scores": "none",
            "sentence": "every label of a sample's groups (no assign stage in this pipeline)",
        }
    return {"kind": "matrix", "matrix": locate(inputs["labels"]), "scores": "none", "sentence": "the labels as read"}


def n_labels_of(inputs: dict) -> int:
    for name in ("assigned_labels", "group_labels", "labels"):
        if name in inputs:
            return inputs[name].about["n_columns"]
    raise KeyError("labels")


def bytes_a_row(inputs: dict) -> float:
    """Memory of one training row while it is emitted: arrays, their copy in another order, and the encoded file."""
    features = inputs["features"]
    rows = max(1, rows_of(features, "train"))
    return 40.0 * entries_of(features, "train") / rows + 2000


def estimate(params: EmitParams, inputs: dict) -> Estimate:
    features = inputs["features"]
    rows = sum(rows_of(features, split) for split in splits_of(features))
    return Estimate(rows, int(300 * 2**20 + features.about["part_rows"] * bytes_a_row(inputs) * 2))


def run(context: Any) -> Produced:
    params, inputs = context.params, context.inputs
    features = inputs["features"]
    held_out = inputs.get("labels") or inputs.get("held_out_labels")
    splits = [split for split in splits_of(features) if split == "train" or (held_out and split in splits_of(held_out))]
    shared = {
        "features": locate(features),
        "train_labels": label_source(inputs),
        "held_out_labels": locate(held_out) if held_out else None,
        "names": locate(inputs["names"]),
        "synthetic": bool(inputs["features"].about.get("synthetic")),
        "n_features": features.about["n_columns"],
        "n_labels": n_labels_of(inputs),
        "splits": splits,
        "seed": context.seed,
        "params": params.model_dump(mode="json"),
    }
    n_train = rows_of(features, "train")
    (survey,) = context.map("survey", survey_labels, [{"unit": "labels", "rows": n_train}], shared)
    shared["facts"] = facts = survey["result"]
    if params.label_order != "original" and "heads" in params.datasets and "parquet" in params.formats:
        (ordered,) = context.map("order", order_labels, [{"unit": "order", "rows": n_train}], shared)
        facts["sign_changes"] = ordered["result"]

    entries: list[dict] = []
    summary_datasets: dict[str, dict] = {}
    if "parquet" in params.formats:
        units = [unit for name in params.datasets for split in splits for unit in part_units(features, name, split)]
        parts = context.map("parts", write_parts, units, shared, bytes_per_row=bytes_a_row(inputs))
        vectors = label_vectors(context, shared)
        for name in params.datasets:
            own = [entry for receipt in parts for entry in receipt["files"] if entry["dataset"] == name]
            shared_parts = {"unit": name, "rows": 0, "parts": own, "provenance": provenance(context)}
            if name == "tree" and vectors:
                shared_parts["vectors"] = vectors
            (closing,) = context.map(f"about-{name}", write_about, [shared_parts], shared)
            entries += own + closing["files"] + shared_parts.get("vectors", [])
            summary_datasets[name] = closing["result"]
    others = [name for name in params.formats if name != "parquet"]
    units = [
        {"unit": f"{name}-{split}", "format": name, "split": split, "rows": rows_of(features, split)}
        for name in others
        for split in splits
    ]
    units += [{"unit": f"{name}-names", "format": name, "split": None, "rows": 0} for name in others]
    for receipt in context.map("formats", write_formats, units, shared, apart=True):
        entries += receipt["files"]
    for name in others:
        summary_datasets[name] = {"rows": {split: facts["rows"][split] for split in splits}}
    summary = {
        "rows": sum(facts["rows"].values()),
        "labels": facts["labels_kept"],
        "labels_from": shared["train_labels"]["sentence"],
        "k": facts["k"],
        "filtered": facts["filtered"],
        **({"sign_changes": facts["sign_changes"]} if "sign_changes" in facts else {}),
        "datasets": summary_datasets,
    }
    return Produced({DATASETS: (entries, {"splits": splits})}, summary, scratch=("survey",))


def label_vectors(context: Any, shared: dict) -> list[dict]:
    """Files of label vectors beside the trees' rows, where the pipeline embeds labels."""
    if "label_embedding" not in context.inputs or "tree" not in context.params.datasets:
        return []
    stored = context.inputs["label_embedding"]
    shared["embedding"] = locate(stored)
    units = [
        {"unit": f"vectors-{index:05d}", "index": index, "rows": entry["rows"]}
        for index, entry in enumerate(stored.files)
    ]
    return [entry for receipt in context.map("vectors", write_vectors, units, shared) for entry in receipt["files"]]


def part_units(features: Any, dataset: str, split: str) -> list[dict]:
    """One unit an output file. Training rows of heads/ are shuffled, so only their count is fixed here."""
    units, start = [], 0
    cuts = part_rows(features, split)
    if dataset == "heads" and split == "train":
        size, total = features.about["part_rows"], sum(cuts)
        cuts = [min(size, total - first) for first in range(0, total, size)]
    for index, rows in enumerate(cuts):
        name = f"{dataset}-{split}-{index:05d}"
        unit = {"unit": name, "dataset": dataset, "split": split, "index": index, "start": start, "rows": rows}
        units.append(unit)
        start += rows
    return units


def provenance(context: Any) -> dict:
    from importlib import metadata

    from xpipe import __version__

    return {
        "inputs": {name: artifact.digest for name, artifact in context.inputs.items()},
        "parameters": canonical_params(context.params),
        "seed": context.seed,
        "versions": {"xpipe": __version__, "pyarrow": metadata.version("pyarrow")},
    }


def survey_labels(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages.emit import work as emit_rows

    yield units[0]["unit"], *emit_rows.survey(folder, shared)


def order_labels(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages.emit import label_order as emit_order

    yield units[0]["unit"], *emit_order.order(folder, shared)


def write_parts(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages.emit import work as emit_rows

    for unit, entry in emit_rows.dataset_parts(folder, units, shared):
        yield unit["unit"], [entry], {}


def write_vectors(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages.emit import work as emit_rows

    for unit in units:
        yield unit["unit"], [emit_rows.write_vectors(folder, unit, shared)], {}


def write_about(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages.emit import dataset_json as emit_about

    for unit in units:
        yield unit["unit"], *emit_about.describe_dataset(folder, unit, shared)


def write_formats(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages.emit import other_formats as emit_formats

    for unit in units:
        relative = emit_formats.write_file(folder, unit, shared)
        entries = [
            {
                "path": path,
                "bytes": files.size(files.join(folder, path)),
                "sha256": files.sha256(files.join(folder, path)),
            }
            for path in relative
        ]
        yield unit["unit"], entries, {}


EMIT = Stage(
    name="emit",
    section="emit",
    version=3,
    reads=(
        "features",
        "assigned_labels|membership+group_labels|labels",
        "label_embedding?",
        "labels?",
        "held_out_labels?",
        "names",
    ),
    writes=(DATASETS,),
    params=EmitParams,
    run=run,
    seeded=True,
    exports=(DATASETS,),
    identity=identity,
    libraries=("numba", "numpy", "pyarrow"),
    estimate=estimate,
)
