"""Stage report: figures of the data and the assignment, as figures.json; and at the end of a run report.html.

Orchestration only. The figures are an artifact like any other: keyed, cached, made at workers. The page is not: it
tells times and memory, which no key knows. So it is drawn when the run's folder is complete (`conclude`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xpipe.engine.context import Context
from xpipe.engine.manifest import Artifact
from xpipe.engine.messages import Unit
from xpipe.engine.stage import Estimate, Produced, Stage
from xpipe.ground import files
from xpipe.report.figures import FIGURES
from xpipe.stages.emitted_paths import REPORT_FILE
from xpipe.stages.matrices import locate, part_rows, rows_of, splits_of
from xpipe.stages.report.messages import LengthCount, Nothing, PartToCount, RowLengths, SplitCounts, Texts, ToFigure
from xpipe.stages.report.params import ReportParams

ARTIFACT = "figures"


def run(context: Context[ReportParams]) -> Produced:
    """Count the rows of every part, then make the figures."""
    from xpipe.stages.report import work

    counted = context.map("count", work.count_part, part_units(context.inputs), Nothing(), doing="counting")
    shared = to_figure(context.inputs, [made.result for made in counted], context.params)
    (made,) = context.map("figures", work.make_figures, [Unit("figures", 0)], shared, doing="making figures")
    return Produced({ARTIFACT: (made.files, {})}, {"figures": FIGURES})


def part_units(inputs: Mapping[str, Artifact]) -> list[PartToCount]:
    """Every part whose rows are counted: those of features and, where rows have any, of labels."""
    features, labels = inputs["features"], _label_matrices(inputs)
    wanted = [(features, split) for split in splits_of(features)]
    wanted += [(labels[split], split) for split in splits_of(features) if split in labels]
    return [
        PartToCount(f"{matrix.name}-{split}-{index:05d}", rows, locate(matrix), split, index)
        for matrix, split in wanted
        for index, rows in enumerate(part_rows(matrix, split))
    ]


def to_figure(inputs: Mapping[str, Artifact], counted: Sequence[RowLengths], params: ReportParams) -> ToFigure:
    """What figures are made from. counted: the lengths of the rows of every unit of `part_units`."""
    labels, assigned, groups = inputs.get("labels"), inputs.get("assigned_labels"), inputs.get("group_labels")
    truth = labels if labels is not None and "train" in splits_of(labels) else None
    counted_in, frequency = next(
        (each for each in _frequencies(truth, assigned, groups) if each[1] is not None), ("", None)
    )
    return ToFigure(
        counts=tuple(_split_counts(inputs, counted)),
        frequency=None if frequency is None else locate(frequency),
        counted=counted_in,
        features=locate(inputs["features"]),
        membership=_located(inputs, "membership"),
        group_labels=_located(inputs, "group_labels"),
        assigned=_located(inputs, "assigned_labels"),
        truth=None if truth is None else locate(truth),
        names=inputs["names"].folder if "names" in inputs else None,
        texts=_texts(inputs, "texts", "text"),
        ids=_texts(inputs, "ids", "id"),
        scores=assigned.about.get("scores", "similarity") if assigned is not None else "none",
        examples=params.groups,
    )


def _frequencies(
    labels: Artifact | None, assigned: Artifact | None, groups: Artifact | None
) -> list[tuple[str, Artifact | None]]:
    """Where label frequencies can be counted, best first."""
    return [("training rows", labels), ("training rows, as assigned", assigned), ("groups", groups)]


def _located(inputs: Mapping[str, Artifact], name: str) -> Any:
    """A reference to a matrix; None where the run has no such matrix."""
    return locate(inputs[name]) if name in inputs else None


def _texts(inputs: Mapping[str, Artifact], name: str, column: str) -> Texts | None:
    """Where texts or ids of the training rows are; None where the data has none."""
    if name not in inputs:
        return None
    parts = [entry for entry in inputs[name].files if entry.split == "train"]
    paths = tuple(files.join(inputs[name].folder, entry.path) for entry in parts)
    return Texts(paths, tuple(entry.rows or 0 for entry in parts), column)


def _split_counts(inputs: Mapping[str, Artifact], counted: Sequence[RowLengths]) -> list[SplitCounts]:
    """The lengths of the rows of every split, from those of its parts."""
    features, found = inputs["features"].name, dict[tuple[str, bool], list[LengthCount]]()
    for unit, lengths in zip(part_units(inputs), counted, strict=True):
        found.setdefault((unit.split, unit.matrix.name == features), []).extend(lengths.lengths)
    return [
        SplitCounts(
            split,
            _joined(found.get((split, True), ())),
            _joined(found[split, False]) if (split, False) in found else None,
        )
        for split in splits_of(inputs["features"])
    ]


def _label_matrices(inputs: Mapping[str, Artifact]) -> dict[str, Artifact]:
    """For each split, the matrix with the labels of its rows."""
    found: dict[str, Artifact] = {}
    for name in ("assigned_labels", "held_out_labels", "labels"):  # true labels, where they are known
        if name in inputs:
            found |= dict.fromkeys(splits_of(inputs[name]), inputs[name])
    return found


def _joined(lengths: Sequence[LengthCount]) -> tuple[LengthCount, ...]:
    """Counts of all parts together."""
    totals: dict[int, int] = {}
    for each in lengths:
        totals[each.entries] = totals.get(each.entries, 0) + each.rows
    return tuple(LengthCount(entries, totals[entries]) for entries in sorted(totals))


def estimate(params: ReportParams, inputs: dict[str, Artifact]) -> Estimate:
    """Memory for the groups and for one part of the rows."""
    return Estimate(rows_of(inputs["features"], "train"), 300 * 2**20) if "features" in inputs else Estimate()


def conclude(params: ReportParams, results: Mapping[str, Any], out: str) -> dict[str, bytes]:
    """report.html of a finished run."""
    from xpipe.report import run_report

    return {REPORT_FILE: run_report(out, results).encode()}


def conclude_sweep(params: ReportParams, table: Mapping[str, Any], out: str) -> dict[str, bytes]:
    """report.html of a matrix, over all its runs."""
    from xpipe.report import matrix_report

    return {REPORT_FILE: matrix_report(out, table).encode()}


def describe(summary: dict[str, Any]) -> str:
    """One line for the console."""
    return f"figures of the data and of the assignment; {REPORT_FILE} shows them"


STAGE = Stage(
    name="report",
    section="report",
    version=1,
    reads=(
        "features", "names?", "texts?", "ids?", "labels?", "held_out_labels?", "membership?", "group_labels?",
        "assigned_labels?",
    ),
    writes=(ARTIFACT,),
    params=ReportParams,
    run=run,
    exports=(ARTIFACT,),
    outputs=(FIGURES, REPORT_FILE),
    usual=True,
    libraries=("numpy",),
    estimate=estimate,
    describe=describe,
    conclude=conclude,
    conclude_sweep=conclude_sweep,
)  # fmt: skip
