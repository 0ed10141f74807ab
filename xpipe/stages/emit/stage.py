"""Stage emit: features and labels become the datasets that trainers load.

Orchestration only: workers count the labels (`label_survey`), write the rows (`work`, `other_formats`) and the files
beside the rows (`dataset_json`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from xpipe.engine.context import Context
from xpipe.engine.manifest import Artifact
from xpipe.engine.messages import Unit
from xpipe.engine.params import canonical_params
from xpipe.engine.stage import Estimate, Outlook, Produced, Stage
from xpipe.errors import ConfigError, XpipeError
from xpipe.stages.emit.facts import EmitFacts, EmitInputs, LabelSource
from xpipe.stages.emit.params import EmitParams
from xpipe.stages.emit.parquet_datasets import Emitted, bytes_per_row, emit_parquet
from xpipe.stages.emitted_paths import DATASET_NAMES, DATASETS
from xpipe.stages.matrices import MatrixRef, entries_of, locate, rows_of, splits_of


def dataset_problem(name: str, wanted_by: str, outlook: Outlook) -> list[XpipeError]:
    """Why a later stage cannot have tree/ or heads/. Empty where it can, or where the pipeline has no stage emit."""
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


def identity(params: EmitParams, inputs: dict[str, Artifact], store: Any) -> dict[str, Any]:
    """The params, and the release of xpipe: dataset.json names it."""
    from xpipe.ground.release import __version__

    return {**canonical_params(params), "xpipe": __version__}


def estimate(params: EmitParams, inputs: dict[str, Artifact]) -> Estimate:
    """Rows of all splits, and the memory of a worker with two parts."""
    features = inputs["features"]
    rows = sum(rows_of(features, split) for split in splits_of(features))
    return Estimate(rows, int(300 * 2**20 + features.about["part_rows"] * bytes_per_row(inputs) * 2))


def run(context: Context[EmitParams]) -> Produced:
    """Count the labels, then write the Parquet datasets and the other formats."""
    facts = survey(context, gather_inputs(context))
    parquet = emit_parquet(context, facts) if "parquet" in context.params.formats else Emitted((), {})
    others = emit_other_formats(context, facts)
    about = {"splits": list(facts.inputs.splits)}
    summary = summarise(facts, {**parquet.summaries, **others.summaries})
    return Produced({DATASETS: ((*parquet.files, *others.files), about)}, summary)


def gather_inputs(context: Context[EmitParams]) -> EmitInputs:
    """The artifacts that rows are read from. A held-out split without labels is not emitted."""
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
        ids=locate(inputs["ids"]) if "ids" in inputs else None,
        candidates=candidates_of(inputs),
    )


def candidates_of(inputs: dict[str, Artifact]) -> MatrixRef | None:
    """The artifact with candidates, where it has any: `auto` may have taken a method without."""
    found = inputs.get("candidates")
    return locate(found) if found is not None and entries_of(found, "train") else None


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
    """The number of original labels."""
    name = next(name for name in ("assigned_labels", "group_labels", "labels") if name in inputs)
    return int(inputs[name].about["n_columns"])


def survey(context: Context[EmitParams], inputs: EmitInputs) -> EmitFacts:
    """Count the labels before any row is written; where the params ask for it, find their order."""
    from xpipe.stages.emit import label_order, label_survey

    unit = Unit("labels", 0)
    (surveyed,) = context.map("survey", label_survey.survey_labels, [unit], inputs, doing="counting labels")
    facts = EmitFacts(inputs, surveyed.result)
    params = context.params
    if not (params.writes_dataset("heads") and params.reorders_labels("heads")):
        return facts
    unit = Unit("order", 0)
    (ordered,) = context.map("order", label_order.choose_order, [unit], facts, doing="choosing the order of labels")
    return dataclasses.replace(facts, sign_changes=ordered.result)


def emit_other_formats(context: Context[EmitParams], facts: EmitFacts) -> Emitted:
    """Write XMC text, npz and svmlight. Each task streams one split in one format."""
    from xpipe.stages.emit.other_formats import FormatFiles, write_format

    features, formats, splits = context.inputs["features"], context.params.other_formats, facts.inputs.splits
    units = [
        FormatFiles(f"{name}-{split}", rows_of(features, split), name, split) for name in formats for split in splits
    ]
    units += [FormatFiles(f"{name}-names", 0, name, None) for name in formats]
    finished = context.map("formats", write_format, units, facts, one_unit_per_task=True, doing="writing other formats")
    rows = {split: facts.survey.rows[split] for split in splits}
    return Emitted(tuple(entry for one in finished for entry in one.files), {name: {"rows": rows} for name in formats})


def summarise(facts: EmitFacts, datasets: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The summary for people."""
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


def describe(summary: dict[str, Any]) -> str:
    """One line for the console."""
    lost = summary["filtered"]["labels_without_positives"]
    kept = f"{summary['labels']:,} labels ({lost:,} without positives filtered), k = {summary['k']}"
    if "sign_changes" in summary:
        before, after = (summary["sign_changes"][when] for when in ("before", "after"))
        kept += f"; ordered for at most {after['largest']} sign changes instead of {before['largest']}"
    return f"{kept}; {summary['labels_from']}"


STAGE = Stage(
    name="emit",
    section="emit",
    version=5,
    reads=(
        "features",
        "assigned_labels|membership+group_labels|labels",
        "candidates?",
        "label_embedding?",
        "labels?",
        "held_out_labels?",
        "names",
        "ids?",
    ),
    writes=(DATASETS,),
    params=EmitParams,
    run=run,
    seeded=True,
    exports=(DATASETS,),
    outputs=DATASET_NAMES,
    identity=identity,
    libraries=("numba", "numpy", "pyarrow"),
    estimate=estimate,
    describe=describe,
)
