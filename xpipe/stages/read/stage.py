"""Stage read: files of any known format become parts of features, labels, membership and group labels.

Orchestration only: files are told apart by `formats.layout`; workers read them with `scanning`, `work`, `side_files`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from xpipe.engine.context import Context
from xpipe.engine.messages import FileEntry, Unit
from xpipe.engine.params import canonical_params
from xpipe.engine.sources import state_of
from xpipe.engine.stage import Estimate, Produced, Stage
from xpipe.errors import ConfigError
from xpipe.ground import files
from xpipe.stages.matrices import matrix_about
from xpipe.stages.read.outlook import foresee, preflight
from xpipe.stages.read.params import DataParams, has_files, layout_of

if TYPE_CHECKING:
    from xpipe.formats.fitting import Shape
    from xpipe.formats.layout import Layout
    from xpipe.stages.read.scanning import InputFile, ScannedFile
    from xpipe.stages.read.work import PartCounts

WORKER_BYTES = 220 * 2**20  # a worker process with numpy, Arrow and compiled kernels, before it holds a row


def provides(params: DataParams) -> tuple[str, ...]:
    if not has_files(params) and params.if_missing == "synthesize":
        return ("features", "labels", "names")
    splits = layout_of(params, {}).splits
    grouped = "train" in splits and splits["train"].group_labels is not None
    others = [split for name, split in splits.items() if name != "train"]
    held_out = ("held_out_labels",) if any(split.samples or split.labels for split in others) else ()
    labels = ("membership", "group_labels", *held_out) if grouped else ("labels",)
    return ("features", *labels, "names", *(("rejects",) if params.on_bad_row == "drop" else ()))


def identity(params: DataParams, inputs: dict, store: Any) -> dict:
    layout = layout_of(params, inputs)
    # a file's name tells its format, so the same bytes under another name may be another matrix
    reading = {**canonical_params(params, leave_out=("name", "dir", "if_missing")), "format": layout.format}
    if "source" in inputs:
        return reading
    roles = {f"{split}.{role}": path for split, role, path in role_files(layout)}
    if layout.format == "parquet":  # what dataset.json says of its parts is a claim: their own bytes make the key
        from xpipe.formats.emitted import list_parts

        roles["dataset"] = files.join(layout.folder, "dataset.json")
        parts = {part.path: part for split in layout.splits for part in list_parts(layout.folder, split)}
        roles |= {path.removeprefix(layout.folder): path for path in parts}
    for path in roles.values():
        check_is_file(path)
    if params.on_bad_row == "drop":  # rejects.parquet names the files
        reading["names"] = {role: files.basename(path) for role, path in roles.items()}
    digests = store.digest_inputs(roles.values())
    return {**reading, "digests": {role: digests[path] for role, path in roles.items()}, "synthetic": layout.synthetic}


def check_is_file(path: str) -> None:
    """Raise DataError at once for a folder, FIFO, socket or device, and for what is not there."""
    from xpipe.formats.blocks import open_stream

    with open_stream(path):
        pass


def role_files(layout: Layout) -> Iterator[tuple[str, str, str]]:
    """(split, role, path) of every file that goes into the artifacts."""
    for name in ("label_names", "feature_names"):
        if getattr(layout, name):
            yield "all", name, files.join(layout.folder, getattr(layout, name))
    for split, split_files in layout.splits.items():
        for role, name in dataclasses.asdict(split_files).items():
            grouped_by_ids = role != "group_ids" or split_files.group_labels
            if name and grouped_by_ids and layout.format != "parquet":
                yield split, role, files.join(layout.folder, name)


def estimate(params: DataParams, inputs: dict) -> Estimate:
    """Rows from the headers; memory from the bytes of a part, or of a whole file where the format has no ranges."""
    layout = layout_of(params, inputs)
    rows, whole, part = 0, 0, 0
    for _, role, path in role_files(layout):
        size = files.size(path)
        if path.endswith((".npz", ".parquet")):
            whole += 3 * size
        elif role in ("samples", "features"):
            found = promised_rows(path, "xmc" if layout.format == "xmc" else "sparse", params)
            rows += found or 0
            part = max(part, size * params.part_rows // found if found else size)
    return Estimate(rows or None, WORKER_BYTES + whole + 3 * part)


def promised_rows(path: str, kind: str, params: DataParams) -> int | None:
    """The row count of a header, None where there is none to believe."""
    from xpipe.errors import DataError
    from xpipe.formats.text import open_text

    try:
        return open_text(path, kind, header=True).n_rows if params.header else None
    except DataError:
        return None


def run(context: Context[DataParams]) -> Produced:
    from xpipe.stages.read import scanning, side_files, work

    params = context.params
    layout = layout_of(params, context.inputs)
    reading = scanning.Reading(layout, params, state_of(context.sources))
    inputs = files_to_scan(layout)
    scans = context.map("scan", scanning.scan_file, inputs, reading, one_unit_per_task=True)
    scanned = tuple(scan.result for scan in scans)
    shape = check_fit(layout, scanned)
    check_hidden_labels(params, shape)
    data = work.ScannedData(reading, scanned, shape)
    units = [unit for split in layout.splits for unit in work.parts_of(split, shape.rows[split], params.part_rows)]
    parts = context.map("rows", work.read_part, units, data, bytes_per_row=memory_per_row(inputs, shape))
    beside = context.map("beside", side_files.write_names, [Unit("names", 0)], data)
    if shape.n_groups is not None:
        beside += context.map("beside", side_files.write_group_labels, [Unit("group_labels", 0)], data)
    if params.on_bad_row == "drop":
        lists = side_files.RejectLists("rejects", 0, tuple(unit.name for unit in units))
        beside += context.map("beside", side_files.write_rejects, [lists], data)
    written = [entry for part in parts for entry in part.files] + [entry for one in beside for entry in one.files]
    if params.name and not layout.synthetic:
        warn_if_another_dataset(context, params.name, shape)
    return Produced(
        artifacts_of(layout, params, shape, written),
        summary_of(layout, shape, kept_rows(layout, written, "features"), [part.result for part in parts]),
    )


def files_to_scan(layout: Layout) -> list[InputFile]:
    """Every file with rows; an emitted dataset is scanned by split."""
    from xpipe.stages.read.scanning import InputFile

    if layout.format == "parquet":
        return [InputFile(f"{split}-emitted", 0, split, "emitted", layout.folder) for split in layout.splits]
    with_rows = ("samples", "features", "labels", "membership", "group_ids", "group_labels")
    return [
        InputFile(f"{split}-{role}", 0, split, role, path)
        for split, role, path in role_files(layout)
        if role in with_rows
    ]


def check_fit(layout: Layout, scanned: Sequence[ScannedFile]) -> Shape:
    """Rows and widths of all files together; raises DataError where they do not fit each other."""
    from xpipe.formats.fitting import check_trainable, fit_together

    sizes: dict[str, dict[str, Any]] = {}
    for file in scanned:
        mode = "ids" if file.access == "ids" else None
        facts = {"mode": mode, "rows": file.rows, "columns": file.columns, "labels": file.labels}
        sizes[f"{file.split}-{file.role}"] = facts
    shape = fit_together(layout.folder, sizes)
    check_trainable(layout.folder, shape)
    return shape


def check_hidden_labels(params: DataParams, shape: Shape) -> None:
    if params.hide_labels and shape.n_groups is not None:
        raise ConfigError(
            "data.hide_labels needs data with labels of samples", why="this data has labels of groups (Y2)",
            fix="leave hide_labels out",
        )  # fmt: skip


def memory_per_row(inputs: Sequence[InputFile], shape: Shape) -> float:
    text = sum(files.size(file.path) for file in inputs if file.role in ("samples", "features", "labels"))
    return 3.0 * text / max(1, sum(shape.rows.values()))


def files_of(written: Sequence[FileEntry], artifact: str) -> list[FileEntry]:
    return [entry for entry in written if entry.path.startswith(artifact + "/")]


def kept_rows(layout: Layout, written: Sequence[FileEntry], artifact: str) -> dict[str, int]:
    """Rows of a matrix in each split that has it."""
    found = files_of(written, artifact)
    splits = [split for split in layout.splits if any(entry.split == split for entry in found)]
    return {split: sum(entry.rows or 0 for entry in found if entry.split == split) for split in splits}


def artifacts_of(
    layout: Layout, params: DataParams, shape: Shape, written: Sequence[FileEntry]
) -> dict[str, tuple[Sequence[FileEntry], dict]]:
    """The files of each artifact, and its facts."""
    widths = {"features": shape.n_features, "labels": shape.n_labels, "held_out_labels": shape.n_labels}
    if shape.n_groups is not None:
        widths |= {"membership": shape.n_groups, "group_labels": shape.n_labels}
    artifacts: dict[str, tuple[Sequence[FileEntry], dict]] = {}
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


def summary_of(layout: Layout, shape: Shape, rows: dict[str, int], parts: Sequence[PartCounts]) -> dict:
    """What people see of the data; `rows` are those kept of each split."""
    kept = sum(rows.values())
    summary = {
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
    from xpipe.formats.layout import FORMATS

    return f"{FORMATS[layout.format]}: {', '.join(layout.splits)}"


def describe(summary: dict) -> str:
    return (
        f"{summary['n_features']:,} features, {summary['n_labels']:,} labels; "
        f"{summary['features_a_row']:.1f} features and {summary['labels_a_row']:.2f} labels a row"
        + (f"; {summary['rejected']:,} bad rows dropped" if summary.get("rejected") else "")
    )


def warn_if_another_dataset(context: Context[DataParams], name: str, shape: Shape) -> None:
    """Real files under a catalog's name should have its published shape."""
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
    from xpipe.formats.text import compile_kernels

    compile_kernels()


READ = Stage(
    name="read",
    section="data",
    version=2,
    reads=("source?",),
    writes=("features", "labels", "membership", "group_labels", "held_out_labels", "names", "rejects"),
    params=DataParams,
    run=run,
    exports=("rejects",),
    provides=provides,
    foresee=foresee,
    preflight=preflight,
    identity=identity,
    libraries=("pyarrow",),
    estimate=estimate,
    compile=compile_kernels,
    describe=describe,
)
