"""Stage read for tables: stage the rows of every file, look at all of them together, write parts.

Orchestration only: `staging`, `joining` and `work` run at workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xpipe.engine.messages import FileEntry, Unit
from xpipe.engine.sources import state_of
from xpipe.engine.stage import Produced
from xpipe.stages.matrices import matrix_about
from xpipe.stages.read.tables.sources import Sources, sources_of

if TYPE_CHECKING:
    from xpipe.engine.context import Context
    from xpipe.stages.read.params import DataParams
    from xpipe.stages.read.tables.joining import Joined
    from xpipe.stages.read.tables.staged_rows import Staged
    from xpipe.stages.read.tables.work import PartCounts

Artifacts = dict[str, tuple[Sequence[FileEntry], dict[str, Any]]]


def run(context: Context[DataParams]) -> Produced:
    """Read tables: one pass over the files, then one over their staged rows."""
    from xpipe.stages.read.tables import joining, work

    sources = sources_of(context.params)
    staged = stage(context, sources)
    (joined,) = context.map("join", joining.join_tables, [Unit("join", 0)], staged, doing="numbering ids and labels")
    facts = joined.result
    if facts.unnamed:
        context.warn(
            f"{facts.unnamed:,} labels have no name in data.label_names and are shown as they are, "
            f"for example {facts.example!r}"
        )
    rows = {split: facts.rows[split] for split in ("train", *sources.held_out_names)}
    units = [part for split, count in rows.items() for part in work.parts_of(split, count, context.params.part_rows)]
    shared = work.Tables(staged, facts, state_of(context.sources))
    parts = context.map("rows", work.write_part, units, shared, doing="writing rows")
    written = [*joined.files, *(entry for part in parts for entry in part.files)]
    return Produced(
        artifacts_of(context.params, sources, staged, facts, rows, written),
        summary_of(sources, facts, rows, [part.result for part in parts]),
    )


def stage(context: Context[DataParams], sources: Sources) -> Staged:
    """Parse every file and stage its rows."""
    from xpipe.stages.read.tables import staged_rows, staging

    pieces = staging.pieces_of(sources)
    shared = staging.Staging(sources, min(context.params.part_rows, staging.PIECE_ROWS))
    done = context.map("files", staging.stage_piece, pieces, shared, one_unit_per_task=True, doing="reading files")
    found: list[staged_rows.StagedRows] = []
    first = dict.fromkeys((source.split for source in sources.splits), 0)
    for piece, one in zip(pieces, done, strict=True):
        in_file = piece.first
        for number, rows in enumerate(one.result.rows):
            found.append(
                staged_rows.StagedRows(piece.name, number, piece.split, first[piece.split], rows, piece.file, in_file)
            )
            first[piece.split] += rows
            in_file += rows
    return staged_rows.Staged(sources, tuple(found), context.seed, context.params.part_rows)


def artifacts_of(
    params: DataParams, sources: Sources, staged: Staged, joined: Joined, rows: dict[str, int], written: list[FileEntry]
) -> Artifacts:
    """The files of each artifact, and its facts."""
    widths: dict[str, int | None] = {
        "labels": joined.n_labels, "held_out_labels": joined.n_labels, "group_labels": joined.n_labels,
        "membership": joined.n_groups, "groups": joined.n_groups,
    }  # fmt: skip
    in_files = {split: staged.count("train" if sources.holdout else split) for split in rows}
    found: Artifacts = {}
    for name, width in widths.items():
        entries = [entry for entry in written if entry.path.startswith(f"{name}/")]
        if not entries or width is None:
            continue
        counts = {split: sum(entry.rows or 0 for entry in entries if entry.split == split) for split in rows}
        about = matrix_about(width, params.part_rows, {split: count for split, count in counts.items() if count})
        if name == "labels":
            about["file_rows"] = in_files
        found[name] = (entries, about)
    for name in ("texts", "ids"):
        entries = [entry for entry in written if entry.path.startswith(f"{name}/")]
        if entries:
            found[name] = (entries, {"rows": rows, "part_rows": params.part_rows, "file_rows": in_files})
    found["texts"][1]["with_texts"] = bool(sources.train.text)
    found["names"] = ([entry for entry in written if entry.path.startswith("names/")], {})
    return found


def summary_of(sources: Sources, joined: Joined, rows: dict[str, int], parts: Sequence[PartCounts]) -> dict[str, Any]:
    """The summary for people."""
    kinds = sorted({file.kind for source in sources.splits for file in source.files})
    total, labelled = sum(rows.values()), sum(rows[split] for split in sources.labelled)
    summary: dict[str, Any] = {
        "rows": total,
        "splits": rows,
        "n_labels": joined.n_labels,
        "labels_a_row": sum(part.labels for part in parts) / max(labelled, 1),
        "rows_without_labels": sum(part.rows_without_labels for part in parts),
        "characters_a_row": sum(part.text_bytes for part in parts) / max(total, 1),
        "recognised": f"tables ({', '.join(kinds)}): {', '.join(rows)}",
        "synthetic": False,
        "tables": True,
        "labels_of_groups": sources.grouped,
    }
    if joined.n_groups is not None:
        summary["groups"] = joined.n_groups
    return summary


def describe(summary: dict[str, Any]) -> str:
    """One line for the console."""
    groups = f"; {summary['groups']:,} groups" if "groups" in summary else ""
    known = " of groups" if summary["labels_of_groups"] else f", {summary['labels_a_row']:.2f} per row"
    return f"{summary['recognised']}; {summary['n_labels']:,} labels{known}{groups}"
