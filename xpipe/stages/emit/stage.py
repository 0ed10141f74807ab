"""Stage emit: features and labels become the datasets that trainers load. Surveys labels, writes parts, then the facts.

Orchestration only: rows come from `work`, files are written by `formats`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xpipe.engine.context import Context
from xpipe.engine.messages import FileEntry, Unit
from xpipe.engine.params import canonical_params
from xpipe.engine.stage import Estimate, Outlook, Produced, Stage
from xpipe.engine.store import Artifact
from xpipe.errors import ConfigError, XpipeError
from xpipe.stages.emit.facts import EmitFacts, EmitInputs, LabelSource
from xpipe.stages.emit.params import EmitParams
from xpipe.stages.emitted_paths import DATASETS
from xpipe.stages.matrices import entries_of, locate, part_rows, rows_of, splits_of

if TYPE_CHECKING:
    from xpipe.stages.emit.dataset_json import Provenance
    from xpipe.stages.emit.work import DatasetPart


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


def bytes_per_row(inputs: dict[str, Artifact]) -> float:
    """Memory of one training row while it is emitted: arrays, their copy in another order, and the encoded file."""
    features = inputs["features"]
    rows = max(1, rows_of(features, "train"))
    return 40.0 * entries_of(features, "train") / rows + 2000


def estimate(params: EmitParams, inputs: dict[str, Artifact]) -> Estimate:
    features = inputs["features"]
    rows = sum(rows_of(features, split) for split in splits_of(features))
    return Estimate(rows, int(300 * 2**20 + features.about["part_rows"] * bytes_per_row(inputs) * 2))


@dataclass(frozen=True)
class Emitted:
    """What some formats left: their files, and a summary of each dataset by its name."""

    files: tuple[FileEntry, ...]
    summaries: dict[str, dict[str, Any]]


def run(context: Context[EmitParams]) -> Produced:
    facts = survey(context, gather_inputs(context))
    parquet = emit_parquet(context, facts) if "parquet" in context.params.formats else Emitted((), {})
    others = emit_other_formats(context, facts)
    about = {"splits": list(facts.inputs.splits)}
    summary = summarise(facts, {**parquet.summaries, **others.summaries})
    return Produced({DATASETS: ((*parquet.files, *others.files), about)}, summary)


def gather_inputs(context: Context[EmitParams]) -> EmitInputs:
    """Where the artifacts lie that rows are read from. A held-out split without labels is not emitted."""
    inputs = context.inputs
    features = inputs["features"]
    held_out = inputs.get("labels") or inputs.get("held_out_labels")
    labelled = {"train", *(splits_of(held_out) if held_out else ())}
    return EmitInputs(
        features=locate(features),
        train_labels=label_source(inputs),
        held_out_labels=locate(held_out) if held_out else None,
        names=locate(inputs["names"]),
        synthetic=bool(features.about.get("synthetic")),
        n_features=features.about["n_columns"],
        n_labels=n_labels_of(inputs),
        splits=tuple(split for split in splits_of(features) if split in labelled),
        seed=context.seed,
        params=context.params,
    )


def label_source(inputs: dict[str, Artifact]) -> LabelSource:
    """Where the training labels come from: assigned, spread over groups, or as read."""
    if "assigned_labels" in inputs:
        assigned = inputs["assigned_labels"]
        return LabelSource(locate(assigned), None, assigned.about["scores"], "assigned labels")
    if "membership" in inputs:
        sentence = "every label of a sample's groups (no assign stage in this pipeline)"
        return LabelSource(locate(inputs["membership"]), locate(inputs["group_labels"]), "none", sentence)
    return LabelSource(locate(inputs["labels"]), None, "none", "the labels as read")


def n_labels_of(inputs: dict[str, Artifact]) -> int:
    for name in ("assigned_labels", "group_labels", "labels"):
        if name in inputs:
            return inputs[name].about["n_columns"]
    raise KeyError("labels")


def survey(context: Context[EmitParams], inputs: EmitInputs) -> EmitFacts:
    """Count the labels, and where the params ask for it put them in an order, before any row is written."""
    from xpipe.stages.emit import label_order, label_survey

    n_train = rows_of(context.inputs["features"], "train")
    (surveyed,) = context.map("survey", label_survey.survey_labels, [Unit("labels", n_train)], inputs)
    facts = EmitFacts(inputs, surveyed.result)
    params = context.params
    if not (params.writes_dataset("heads") and params.reorders_labels("heads")):
        return facts
    (ordered,) = context.map("order", label_order.choose_order, [Unit("order", n_train)], facts)
    return dataclasses.replace(facts, sign_changes=ordered.result)


def emit_parquet(context: Context[EmitParams], facts: EmitFacts) -> Emitted:
    """tree/ and heads/: the parts of all datasets, then labels.parquet and dataset.json of each."""
    from xpipe.stages.emit import dataset_json, work

    features, datasets = context.inputs["features"], context.params.datasets
    units = [part for name in datasets for split in facts.inputs.splits for part in part_units(features, name, split)]
    finished = context.map_together(
        "parts", work.write_dataset_parts, units, facts, bytes_per_row=bytes_per_row(context.inputs)
    )
    parts = [entry for one in finished for entry in one.files]
    vectors = emit_label_vectors(context)
    entries: list[FileEntry] = []
    summaries: dict[str, dict[str, Any]] = {}
    for name in datasets:
        own_parts = tuple(entry for entry in parts if entry.dataset == name)
        own_vectors = vectors if name == "tree" else ()
        unit = dataset_json.WrittenDataset(name, 0, own_parts, own_vectors, provenance(context))
        (described,) = context.map(f"about-{name}", dataset_json.describe_dataset, [unit], facts)
        entries += [*own_parts, *described.files, *own_vectors]
        summaries[name] = dataclasses.asdict(described.result)
    return Emitted(tuple(entries), summaries)


def part_units(features: Artifact, dataset: str, split: str) -> list[DatasetPart]:
    """One unit per output file. Training rows of heads/ are shuffled, so only their count is fixed here."""
    from xpipe.stages.emit.work import DatasetPart

    units, start = [], 0
    cuts = part_rows(features, split)
    if dataset == "heads" and split == "train":
        size, total = features.about["part_rows"], sum(cuts)
        cuts = [min(size, total - first) for first in range(0, total, size)]
    for index, rows in enumerate(cuts):
        name = f"{dataset}-{split}-{index:05d}"
        units.append(DatasetPart(name, rows, dataset=dataset, split=split, index=index, start=start, rows=rows))
        start += rows
    return units


def emit_label_vectors(context: Context[EmitParams]) -> tuple[FileEntry, ...]:
    """Files of label vectors beside the rows of tree/, where the pipeline embeds labels."""
    from xpipe.stages.emit import work

    if "label_embedding" not in context.inputs or "tree" not in context.params.datasets:
        return ()
    stored = context.inputs["label_embedding"]
    units = [
        work.VectorsPart(f"vectors-{index:05d}", entry.rows or 0, index) for index, entry in enumerate(stored.files)
    ]
    finished = context.map("vectors", work.write_label_vectors, units, locate(stored))
    return tuple(entry for one in finished for entry in one.files)


def provenance(context: Context[EmitParams]) -> Provenance:
    from importlib import metadata

    from xpipe import __version__
    from xpipe.stages.emit.dataset_json import Provenance

    return Provenance(
        inputs={name: artifact.digest for name, artifact in context.inputs.items()},
        parameters=canonical_params(context.params),
        seed=context.seed,
        versions={"xpipe": __version__, "pyarrow": metadata.version("pyarrow")},
    )


def emit_other_formats(context: Context[EmitParams], facts: EmitFacts) -> Emitted:
    """XMC text, npz and svmlight, one task per format and split: each streams a whole split."""
    from xpipe.stages.emit.other_formats import FormatFiles, write_format

    features, formats, splits = context.inputs["features"], context.params.other_formats, facts.inputs.splits
    units = [
        FormatFiles(f"{name}-{split}", rows_of(features, split), name, split) for name in formats for split in splits
    ]
    units += [FormatFiles(f"{name}-names", 0, name, None) for name in formats]
    finished = context.map("formats", write_format, units, facts, one_unit_per_task=True)
    rows = {split: facts.survey.rows[split] for split in splits}
    return Emitted(tuple(entry for one in finished for entry in one.files), {name: {"rows": rows} for name in formats})


def summarise(facts: EmitFacts, datasets: dict[str, dict[str, Any]]) -> dict[str, Any]:
    found = facts.survey
    changes = {} if facts.sign_changes is None else {"sign_changes": dataclasses.asdict(facts.sign_changes)}
    return {
        "rows": sum(found.rows.values()),
        "labels": found.labels_kept,
        "labels_from": facts.inputs.train_labels.sentence,
        "k": found.k,
        "filtered": found.filtered(),
        **changes,
        "datasets": datasets,
    }


def describe(summary: dict) -> str:
    lost = summary["filtered"]["labels_without_positives"]
    kept = f"{summary['labels']:,} labels ({lost:,} without positives filtered), k = {summary['k']}"
    if "sign_changes" in summary:
        before, after = (summary["sign_changes"][when] for when in ("before", "after"))
        kept += f"; ordered for at most {after['largest']} sign changes instead of {before['largest']}"
    return f"{kept}; {summary['labels_from']}"


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
    describe=describe,
)
