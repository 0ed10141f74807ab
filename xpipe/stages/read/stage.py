"""Stage read: files of any known format become parts of features, labels, membership and group labels.

Orchestration only: files are told apart by `formats.layout`, rows are read by `read_rows` at the workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xpipe.engine.sources import state_of
from xpipe.engine.stage import Estimate, Produced, Stage, canonical_params
from xpipe.errors import ConfigError
from xpipe.ground import files
from xpipe.stages.matrices import matrix_about
from xpipe.stages.read.outlook import foresee, preflight
from xpipe.stages.read.params import DataParams, has_files, layout_of

WORKER_BYTES = 220 * 2**20  # a worker process with numpy, Arrow and compiled kernels, before it holds a row


def provides(params: DataParams) -> tuple[str, ...]:
    if not has_files(params) and params.if_missing == "synthesize":
        return ("features", "labels", "names")
    train = layout_of(params, {}).splits.get("train")
    grouped = train is not None and train.group_labels is not None
    others = [split for name, split in layout_of(params, {}).splits.items() if name != "train"]
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


def role_files(layout: Any) -> Iterator[tuple[str, str, str]]:
    """(split, role, path) of every file that goes into the artifacts."""
    import dataclasses

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


def run(context: Any) -> Produced:
    import dataclasses

    params = context.params
    layout = layout_of(params, context.inputs)
    shared = {
        "folder": layout.folder,
        "format": layout.format,
        "params": params.model_dump(mode="json"),
        "splits": {name: dataclasses.asdict(split) for name, split in layout.splits.items()},
        "label_names": layout.label_names,
        "feature_names": layout.feature_names,
        "state": state_of(context.sources),
    }
    roles: list[dict[str, Any]] = [
        {"unit": f"{split}-{role}", "split": split, "role": role, "path": path, "rows": 0}
        for split, role, path in role_files(layout)
        if role in ("samples", "features", "labels", "membership", "group_ids", "group_labels")
    ]
    if layout.format == "parquet":
        roles = [{"unit": f"{s}-emitted", "split": s, "role": "emitted", "path": s, "rows": 0} for s in layout.splits]
    scans = context.map("scan", scan_files, roles, shared, apart=True)
    sources = {unit["unit"]: receipt["result"] for unit, receipt in zip(roles, scans, strict=True)}
    shape = check_fit(layout, sources)._asdict()
    if params.hide_labels and shape["n_groups"] is not None:
        raise ConfigError(
            "data.hide_labels needs data with labels of samples", why="this data has labels of groups (Y2)",
            fix="leave hide_labels out",
        )  # fmt: skip
    shared.update(sources=sources, shape=shape)
    units = [unit for split in layout.splits for unit in part_units(split, shape["rows"][split], params.part_rows)]
    parts = context.map("rows", read_parts, units, shared, bytes_per_row=bytes_a_row(roles, shape))
    extra = [{"unit": "names", "rows": 0}]
    if shape["n_groups"] is not None:
        extra.append({"unit": "group_labels", "rows": 0})
    if params.on_bad_row == "drop":
        extra.append({"unit": "rejects", "rows": 0, "steps": [unit["unit"] for unit in units]})
    rest = context.map("beside", read_beside, extra, shared)
    produced = collect(layout, params, shape, parts, rest)
    if params.name and not layout.synthetic:
        warn_if_another_dataset(context, params.name, shape)
    return produced


def check_fit(layout: Any, sources: dict[str, dict]) -> Any:
    """Rows and widths of all files together; raises DataError where they do not fit each other."""
    from xpipe.formats.fitting import check_trainable, fit_together

    shape = fit_together(layout.folder, sources)
    check_trainable(layout.folder, shape)
    return shape


def part_units(split: str, n_rows: int, part_rows: int) -> list[dict]:
    return [
        {
            "unit": f"{split}-{index:05d}",
            "split": split,
            "index": index,
            "start": start,
            "rows": min(part_rows, n_rows - start),
        }
        for index, start in enumerate(range(0, max(n_rows, 1), part_rows))
    ]


def bytes_a_row(roles: list[dict], shape: dict) -> float:
    text = sum(files.size(role["path"]) for role in roles if role["role"] in ("samples", "features", "labels"))
    return 3.0 * text / max(1, sum(shape["rows"].values()))


def collect(layout: Any, params: DataParams, shape: dict, parts: list[dict], rest: list[dict]) -> Produced:
    """Artifacts and summary from the receipts."""
    entries = [entry for receipt in [*parts, *rest] for entry in receipt["files"]]

    def of(artifact: str) -> list[dict]:
        return [entry for entry in entries if entry["path"].startswith(artifact + "/")]

    def rows(artifact: str) -> dict[str, int]:
        found = of(artifact)
        splits = [split for split in layout.splits if any(entry["split"] == split for entry in found)]
        return {split: sum(entry["rows"] for entry in found if entry["split"] == split) for split in splits}

    widths = {"features": shape["n_features"], "labels": shape["n_labels"], "held_out_labels": shape["n_labels"]}
    widths |= {"membership": shape["n_groups"], "group_labels": shape["n_labels"]}
    artifacts: dict[str, tuple[list[dict], dict]] = {}
    for name, width in widths.items():
        if of(name):
            artifacts[name] = (of(name), matrix_about(width, params.part_rows, rows(name)))
            if name in ("features", "labels"):  # dropped rows included: files beside the data have a line for each
                artifacts[name][1]["file_rows"] = shape["rows"]
    artifacts["features"][1]["synthetic"] = layout.synthetic
    artifacts["names"] = (of("names"), {})
    if params.on_bad_row == "drop":
        artifacts["rejects"] = (of("rejects"), {})
    totals = {key: sum(receipt["result"].get(key, 0) for receipt in parts) for key in COUNTED}
    kept = sum(rows("features").values())
    summary = {
        "rows": kept,
        "splits": rows("features"),
        "n_features": shape["n_features"],
        "n_labels": shape["n_labels"],
        "features_a_row": totals["features"] / max(kept, 1),
        "labels_a_row": totals["labels"] / max(kept, 1),
        "rows_without_labels": totals["rows_without_labels"],
        "rows_without_features": totals["rows_without_features"],
        "rejected": totals["rejected"],
        "recognised": spoken_format(layout),
        "synthetic": layout.synthetic,
    }
    if shape["n_groups"] is not None:
        summary["groups"] = shape["n_groups"]
    return Produced(artifacts, summary, scratch=("scan", "unpacked", "rejected"))


COUNTED = ("features", "labels", "rows_without_labels", "rows_without_features", "rejected")


def spoken_format(layout: Any) -> str:
    from xpipe.formats.layout import FORMATS

    return f"{FORMATS[layout.format]}: {', '.join(layout.splits)}"


def warn_if_another_dataset(context: Any, name: str, shape: dict) -> None:
    """Real files under a catalog's name should have its published shape."""
    from xpipe.formats.catalog import PUBLISHED, plain_name

    published = next((known for known in PUBLISHED.values() if plain_name(known.name) == plain_name(name)), None)
    if published is None:
        return
    for what, expected in (("n_features", published.n_features), ("n_labels", published.n_labels)):
        if expected is not None and shape[what] != expected:
            found = f"{shape[what]:,} {what.removeprefix('n_')}"
            context.warn(
                f"data.name is {name}, published with {expected:,} {what.removeprefix('n_')}; the files have {found}"
            )


def compile_kernels() -> None:
    from xpipe.formats.text import compile_kernels

    compile_kernels()


def scan_files(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages.read import work as read_rows

    for unit in units:
        yield unit["unit"], *read_rows.scan(folder, unit, shared)


def read_parts(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages.read import work as read_rows

    for unit in units:
        yield unit["unit"], *read_rows.read_part(folder, unit, shared)


def read_beside(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages.read import side_files as beside

    for unit in units:
        yield unit["unit"], *beside.WRITERS[unit["unit"]](folder, unit, shared)


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
)
