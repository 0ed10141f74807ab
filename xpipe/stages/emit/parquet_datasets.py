"""The Parquet datasets tree/ and heads/ of stage emit: their rows, label vectors, and the files beside the rows.

Orchestration only: files are written at workers, by `work` and `dataset_json`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xpipe.engine.context import Context
from xpipe.engine.manifest import Artifact
from xpipe.engine.messages import FileEntry
from xpipe.engine.params import canonical_params
from xpipe.stages.emit.facts import EmitFacts
from xpipe.stages.emit.params import EmitParams
from xpipe.stages.matrices import entries_of, locate, part_rows, rows_of

if TYPE_CHECKING:
    from xpipe.stages.emit.dataset_json import Provenance
    from xpipe.stages.emit.work import DatasetPart


@dataclass(frozen=True)
class Emitted:
    """The files of some formats, and a summary of each dataset by its name."""

    files: tuple[FileEntry, ...]
    summaries: dict[str, dict[str, Any]]


def emit_parquet(context: Context[EmitParams], facts: EmitFacts) -> Emitted:
    """Write tree/ and heads/: the rows of all datasets, the label vectors, then the files beside the rows of each."""
    parts = emit_parts(context, facts)
    vectors = emit_label_vectors(context)
    datasets = {
        name: describe_dataset(
            context,
            facts,
            name,
            parts=tuple(entry for entry in parts if entry.dataset == name),
            vectors=vectors if name == "tree" else (),
        )
        for name in context.params.datasets
    }
    return Emitted(
        tuple(entry for one in datasets.values() for entry in one.files),
        {name: summary for one in datasets.values() for name, summary in one.summaries.items()},
    )


def emit_parts(context: Context[EmitParams], facts: EmitFacts) -> list[FileEntry]:
    """Write the rows of all Parquet datasets."""
    from xpipe.stages.emit import work

    features, datasets = context.inputs["features"], context.params.datasets
    units = [part for name in datasets for split in facts.inputs.splits for part in part_units(features, name, split)]
    finished = context.map_together(
        "parts", work.write_dataset_parts, units, facts, bytes_per_row=bytes_per_row(context.inputs),
        doing="writing rows",
    )  # fmt: skip
    return [entry for one in finished for entry in one.files]


def describe_dataset(
    context: Context[EmitParams],
    facts: EmitFacts,
    name: str,
    *,
    parts: tuple[FileEntry, ...],
    vectors: tuple[FileEntry, ...],
) -> Emitted:
    """Write the files beside the rows of a dataset whose rows are written; gives all of its files."""
    from xpipe.stages.emit import dataset_json

    unit = dataset_json.WrittenDataset(name, 0, parts, vectors, provenance(context))
    (described,) = context.map(f"about-{name}", dataset_json.describe_dataset, [unit], facts, doing="describing them")
    return Emitted((*parts, *described.files, *vectors), {name: dataclasses.asdict(described.result)})


def part_units(features: Artifact, dataset: str, split: str) -> list[DatasetPart]:
    """One unit per output file. Files of shuffled rows (training rows of heads/) do not follow the stored parts."""
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
    """Write the label vectors of tree/, where the pipeline embeds labels."""
    from xpipe.stages.emit import work

    if "label_embedding" not in context.inputs or "tree" not in context.params.datasets:
        return ()
    stored = context.inputs["label_embedding"]
    units = [
        work.VectorsPart(f"vectors-{index:05d}", entry.rows or 0, index) for index, entry in enumerate(stored.files)
    ]
    finished = context.map("vectors", work.write_label_vectors, units, locate(stored), doing="writing label vectors")
    return tuple(entry for one in finished for entry in one.files)


def provenance(context: Context[EmitParams]) -> Provenance:
    """How the datasets of this run are made."""
    from importlib import metadata

    from xpipe.ground.release import __version__
    from xpipe.stages.emit.dataset_json import Provenance

    return Provenance(
        inputs={name: artifact.digest for name, artifact in context.inputs.items()},
        parameters=canonical_params(context.params),
        seed=context.seed,
        versions={"xpipe": __version__, "pyarrow": metadata.version("pyarrow")},
    )


def bytes_per_row(inputs: dict[str, Artifact]) -> float:
    """Bytes of one training row while it is emitted: its arrays, their copy in another order, and the encoded file."""
    features = inputs["features"]
    rows = max(1, rows_of(features, "train"))
    return 40.0 * entries_of(features, "train") / rows + 2000
