"""Stage read: files of any known format become parts of features (or texts), labels, membership and group labels.

Orchestration only: `formats.layout` recognises the files, and workers read them (`scanning`, `work`, `side_files`).
Tables and texts by line are read by the modules in `tables`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xpipe.engine.context import Context
from xpipe.engine.messages import FileEntry, Finished, Unit
from xpipe.engine.sources import state_of
from xpipe.engine.stage import Produced, Stage
from xpipe.errors import ConfigError
from xpipe.ground import files
from xpipe.stages.emitted_paths import REJECTS_FILE
from xpipe.stages.matrices import matrix_about
from xpipe.stages.read.identity import identity, provides, used_files
from xpipe.stages.read.outlook import estimate, foresee, preflight
from xpipe.stages.read.params import DataParams, input_paths, is_tables, layout_of

if TYPE_CHECKING:
    from xpipe.formats.fitting import Shape
    from xpipe.formats.layout import Layout
    from xpipe.stages.read.scanning import FileToScan, ScannedFile
    from xpipe.stages.read.work import PartCounts, ScannedData


def run(context: Context[DataParams]) -> Produced:
    """Scan the files, check that they fit each other, read their rows, and write what stands beside the rows."""
    if is_tables(context.params):
        from xpipe.stages.read.tables.run import run as run_tables

        return run_tables(context)
    from xpipe.stages.read import work

    data = scan(context)
    layout, shape = data.reading.layout, data.shape
    units = [
        unit for split in layout.splits for unit in work.parts_of(split, shape.rows[split], context.params.part_rows)
    ]
    parts = context.map("rows", work.read_part, units, data, bytes_per_row=memory_per_row(data), doing="reading")
    beside = write_side_files(context, data, [unit.name for unit in units])
    written = [entry for part in parts for entry in part.files] + [entry for one in beside for entry in one.files]
    if context.params.name and not layout.synthetic:
        warn_if_another_dataset(context, context.params.name, shape)
    return Produced(
        artifacts_of(layout, context.params, shape, written),
        summary_of(layout, shape, kept_rows(layout, written, "features"), [part.result for part in parts]),
    )


def scan(context: Context[DataParams]) -> ScannedData:
    """Size of every file, and the shape on which they agree."""
    from xpipe.stages.read import scanning, work

    layout = layout_of(context.params, context.inputs)
    reading = scanning.Reading(layout, context.params, state_of(context.sources))
    found = files_to_scan(layout)
    scans = context.map("scan", scanning.scan_file, found, reading, one_unit_per_task=True, doing="measuring files")
    scanned = tuple(one.result for one in scans)
    shape = check_fit(layout, scanned)
    check_hidden_labels(context.params, shape)
    return work.ScannedData(reading, scanned, shape)


def write_side_files(context: Context[DataParams], data: ScannedData, parts: list[str]) -> list[Finished[None]]:
    """Names, group labels and the list of rejected rows; parts: the names of the units that read rows."""
    from xpipe.stages.read import side_files

    beside = context.map("beside", side_files.write_names, [Unit("names", 0)], data)
    if data.shape.n_groups is not None:
        beside += context.map("beside", side_files.write_group_labels, [Unit("group_labels", 0)], data)
    if context.params.on_bad_row == "drop":
        lists = side_files.RejectLists("rejects", 0, tuple(parts))
        beside += context.map("beside", side_files.write_rejects, [lists], data)
    return beside


def files_to_scan(layout: Layout) -> list[FileToScan]:
    """One unit per file with rows."""
    from xpipe.formats.reading import WITH_ROWS
    from xpipe.stages.read.scanning import FileToScan

    return [FileToScan(file.name, 0, file) for file in used_files(layout) if file.role in WITH_ROWS]


def check_fit(layout: Layout, scanned: Sequence[ScannedFile]) -> Shape:
    """Rows and widths of all files together; raises DataError where they do not fit each other."""
    from xpipe.formats.fitting import check_trainable, fit_together

    shape = fit_together(layout.folder, [each.size for each in scanned])
    check_trainable(layout.folder, shape)
    return shape


def check_hidden_labels(params: DataParams, shape: Shape) -> None:
    """Raise ConfigError where labels are to be hidden and the data has labels of groups."""
    if params.hide_labels and shape.n_groups is not None:
        raise ConfigError(
            "data.hide_labels needs data with labels of samples", why="this data has labels of groups (Y2)",
            fix="leave hide_labels out",
        )  # fmt: skip


def memory_per_row(data: ScannedData) -> float:
    """Bytes of one row while it is read, from the sizes of the text files."""
    in_rows = ("samples", "features", "labels")
    text = sum(files.size(each.file.path) for each in data.files if each.file.role in in_rows)
    return 3.0 * text / max(1, sum(data.shape.rows.values()))


def files_of(written: Sequence[FileEntry], artifact: str) -> list[FileEntry]:
    """The files of one artifact."""
    return [entry for entry in written if entry.path.startswith(artifact + "/")]


def kept_rows(layout: Layout, written: Sequence[FileEntry], artifact: str) -> dict[str, int]:
    """Rows of a matrix in each split that has it."""
    found = files_of(written, artifact)
    splits = [split for split in layout.splits if any(entry.split == split for entry in found)]
    return {split: sum(entry.rows or 0 for entry in found if entry.split == split) for split in splits}


def artifacts_of(
    layout: Layout, params: DataParams, shape: Shape, written: Sequence[FileEntry]
) -> dict[str, tuple[Sequence[FileEntry], dict[str, Any]]]:
    """The files of each artifact, and its facts."""
    widths = {"features": shape.n_features, "labels": shape.n_labels, "held_out_labels": shape.n_labels}
    if shape.n_groups is not None:
        widths |= {"membership": shape.n_groups, "group_labels": shape.n_labels}
    artifacts: dict[str, tuple[Sequence[FileEntry], dict[str, Any]]] = {}
    for name, width in widths.items():
        entries = files_of(written, name)
        if not entries:
            continue
        about = matrix_about(width, params.part_rows, kept_rows(layout, written, name))
        if name in ("features", "labels"):  # dropped rows included: files beside the data have a line for each
            about["file_rows"] = shape.rows
        if name == "features":
            about["synthetic"] = layout.synthetic
        artifacts[name] = (entries, about)
    artifacts["names"] = (files_of(written, "names"), {})
    if params.on_bad_row == "drop":
        artifacts["rejects"] = (files_of(written, "rejects"), {})
    return artifacts


def summary_of(layout: Layout, shape: Shape, rows: dict[str, int], parts: Sequence[PartCounts]) -> dict[str, Any]:
    """The summary for people; `rows` are those kept of each split."""
    kept = sum(rows.values())
    summary: dict[str, Any] = {
        "rows": kept,
        "splits": rows,
        "n_features": shape.n_features,
        "n_labels": shape.n_labels,
        "features_a_row": sum(part.features for part in parts) / max(kept, 1),
        "labels_a_row": sum(part.labels for part in parts) / max(kept, 1),
        "rows_without_labels": sum(part.rows_without_labels for part in parts),
        "rows_without_features": sum(part.rows_without_features for part in parts),
        "rejected": sum(part.rejected for part in parts),
        "recognised": spoken_format(layout),
        "synthetic": layout.synthetic,
    }
    if shape.n_groups is not None:
        summary["groups"] = shape.n_groups
    return summary


def spoken_format(layout: Layout) -> str:
    """The format and the splits, for people."""
    from xpipe.formats.file_names import formats

    return f"{formats()[layout.format]}: {', '.join(layout.splits)}"


def describe(summary: dict[str, Any]) -> str:
    """One line for the console."""
    if summary.get("tables"):
        from xpipe.stages.read.tables.run import describe as describe_tables

        return describe_tables(summary)
    return (
        f"{summary['n_features']:,} features, {summary['n_labels']:,} labels; "
        f"{summary['features_a_row']:.1f} features and {summary['labels_a_row']:.2f} labels per row"
        + (f"; {summary['rejected']:,} bad rows dropped" if summary.get("rejected") else "")
    )


def warn_if_another_dataset(context: Context[DataParams], name: str, shape: Shape) -> None:
    """Warn where real files have the name of a catalog's dataset, but not its published shape."""
    from xpipe.formats.catalog import PUBLISHED, plain_name

    published = next((known for known in PUBLISHED.values() if plain_name(known.name) == plain_name(name)), None)
    if published is None:
        return
    for what, expected, found in (
        ("features", published.n_features, shape.n_features),
        ("labels", published.n_labels, shape.n_labels),
    ):
        if expected is not None and found != expected:
            context.warn(f"data.name is {name}, published with {expected:,} {what}; the files have {found:,} {what}")


def compile_kernels() -> None:
    """Compile the parser before the first row is read."""
    from xpipe.formats.text import compile_kernels

    compile_kernels()


STAGE = Stage(
    name="read",
    section="data",
    version=2,
    reads=("source?",),
    writes=(
        "features",
        "labels",
        "membership",
        "group_labels",
        "held_out_labels",
        "names",
        "rejects",
        "texts",
        "ids",
        "groups",
    ),
    params=DataParams,
    run=run,
    seeded=lambda params: params.holdout is not None,
    exports=("rejects",),
    outputs=(REJECTS_FILE,),
    provides=provides,
    input_folders=input_paths,
    foresee=foresee,
    preflight=preflight,
    identity=identity,
    libraries=("pyarrow",),
    estimate=estimate,
    compile=compile_kernels,
    kernels="formats",
    describe=describe,
)
