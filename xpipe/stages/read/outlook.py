"""What stage read will give, what it needs and where it must fail, from names and headers, before any row is read.

Holds no reading of rows: what only the rows of a file show is left to the stage itself.
"""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING

from xpipe.engine.stage import Estimate, Outlook
from xpipe.errors import ConfigError, DataError, XpipeError
from xpipe.ground import files
from xpipe.stages.read.identity import used_files
from xpipe.stages.read.params import DataParams, has_files, is_tables, layout_of

if TYPE_CHECKING:
    from xpipe.engine.manifest import Artifact
    from xpipe.formats.layout import Layout
    from xpipe.formats.source import TextSource

WORKER_BYTES = 220 * 2**20  # a worker process with numpy, Arrow and compiled kernels, before it holds a row


def foresee(params: DataParams, outlook: Outlook) -> Outlook:
    """Splits, labels and rows of the data. Raises DataError where the folder holds no dataset."""
    if is_tables(params):
        from xpipe.stages.read.tables import outlook as tables

        return tables.foresee(params, outlook)
    if params.if_missing == "synthesize" and not has_files(params):
        return _foresee_stand_in(params, outlook)
    layout = layout_of(params, {})
    splits = tuple(layout.splits)
    train = layout.splits.get("train")
    grouped = train is not None and train.group_labels is not None
    labelled = tuple(
        name
        for name, split in layout.splits.items()
        if not (name == "train" and grouped) and (split.samples or split.labels)
    )
    rows, widths = _from_headers(params, layout)
    return dataclasses.replace(outlook, splits=splits, labelled=labelled, rows=rows, n_labels=max(widths, default=None))


def _foresee_stand_in(params: DataParams, outlook: Outlook) -> Outlook:
    """The outlook of a stand-in, from the catalog."""
    from xpipe.synth import spec_of

    try:
        spec = spec_of(str(params.name))
    except ConfigError:
        return outlook  # `preflight` reports it
    rows = {split: spec.rows(split) for split in ("train", "test", "dev") if spec.rows(split)}
    return dataclasses.replace(outlook, splits=tuple(rows), labelled=tuple(rows), rows=rows, n_labels=spec.n_labels)


def _from_headers(params: DataParams, layout: Layout) -> tuple[dict[str, int], list[int]]:
    """(rows by split, numbers of labels), as far as headers and parameters say; rows may turn out fewer."""
    if layout.format == "parquet":
        from xpipe.formats.parquet import read_about

        about = read_about(layout.folder)
        return {name: int(split["rows"]) for name, split in about["splits"].items()}, [int(about["n_labels"])]
    rows: dict[str, int] = {}
    widths = [params.n_labels] if params.n_labels else []
    kind = {"xmc": "xmc", "split": "sparse"}.get(layout.format)
    if kind is None or not params.header:
        return rows, widths
    for name, split in layout.splits.items():
        source = _header(files.join(layout.folder, str(split.samples or split.features)), kind)
        if source is not None and source.n_rows is not None:
            rows[name] = source.n_rows
        if kind == "xmc" and source is not None:
            widths.append(source.n_labels)
        elif kind == "sparse" and split.labels:
            labels = _header(files.join(layout.folder, split.labels), kind)
            widths += [labels.n_features] if labels is not None else []
    return rows, widths


def _header(path: str, kind: str) -> TextSource | None:
    """The text file as its header describes it; None where there is no header that can be read."""
    from xpipe.formats.text import open_text

    if files.is_local(path) and not os.path.isfile(path):
        return None  # a pipe would be waited for
    try:
        return open_text(path, kind, header=True)
    except (XpipeError, OSError):
        return None


def estimate(params: DataParams, inputs: dict[str, Artifact]) -> Estimate:
    """Rows from the headers. Memory from the bytes of a part, or of a whole file where the format has no ranges."""
    if is_tables(params):
        from xpipe.stages.read.tables import outlook as tables

        return tables.estimate(params)
    from xpipe.formats.matrix_formats import matrix_format_of

    layout = layout_of(params, inputs)
    rows, whole, part = 0, 0, 0
    for file in used_files(layout):
        if file.role == "emitted":
            continue
        size = files.size(file.path)
        if matrix_format_of(file.path) is not None:
            whole += 3 * size
        elif file.role in ("samples", "features"):
            kind = "xmc" if layout.format == "xmc" else "sparse"
            source = _header(file.path, kind) if params.header else None
            found = source.n_rows if source is not None else None
            rows += found or 0
            part = max(part, size * params.part_rows // found if found else size)
    return Estimate(rows or None, WORKER_BYTES + whole + 3 * part)


def preflight(params: DataParams, outlook: Outlook) -> list[XpipeError]:
    """What must fail while the data is read."""
    if is_tables(params):
        from xpipe.stages.read.tables import outlook as tables

        return tables.preflight(params, outlook)
    problems = _name_problem(params)
    if params.if_missing == "synthesize" and not has_files(params):
        return problems
    layout = layout_of(params, {})
    return [
        *problems,
        *_training_problem(layout),
        *_hidden_labels_problem(params, layout),
        *_split_base_problem(params, layout),
        *_width_problem(params, layout),
    ]


def _name_problem(params: DataParams) -> list[XpipeError]:
    """A name that is not in the catalog."""
    if params.name is None:
        return []
    from xpipe.synth import spec_of

    try:
        spec_of(params.name)
    except ConfigError as error:
        return [ConfigError(f"data.name: {error.what}", why=error.why, fix=error.fix)]
    return []


def _training_problem(layout: Layout) -> list[XpipeError]:
    """Data without training rows."""
    if "train" in layout.splits:
        return []
    return [
        DataError(
            "the data has no training rows",
            where=layout.folder,
            why="it has " + (", ".join(layout.splits) or "no split"),
            fix="name the file with the training rows train.txt, or as the table in docs/guides/formats.md says",
        )
    ]


def _hidden_labels_problem(params: DataParams, layout: Layout) -> list[XpipeError]:
    """Labels to be hidden in data that has labels of groups."""
    train = layout.splits.get("train")
    if not params.hide_labels or train is None or train.group_labels is None:
        return []
    return [
        ConfigError(
            "data.hide_labels needs data with labels of samples",
            why="this data has labels of groups (Y2)",
            fix="leave hide_labels out",
        )
    ]


def _split_base_problem(params: DataParams, layout: Layout) -> list[XpipeError]:
    """Index split files of which nobody says how they count."""
    if params.split_base is not None or not any(split.rows for split in layout.splits.values()):
        return []
    return [
        DataError(
            "data.split_base must be given",
            where=layout.folder,
            why="the data comes with index splits, and numbers alone do not say whether they count from 0 or 1",
            fix="split_base: 1 for files of the XMC repository",
        )
    ]


def _width_problem(params: DataParams, layout: Layout) -> list[XpipeError]:
    """Files without a header of which nobody says how wide they are."""
    headerless = layout.format == "svmlight" or (layout.format == "xmc" and not params.header)
    missing = [f"data.{name}" for name in ("n_features", "n_labels") if getattr(params, name) is None]
    if not headerless or not missing:
        return []
    return [
        DataError(
            f"{' and '.join(missing)} must be given",
            where=layout.folder,
            why="files without a header do not say how wide they are",
            fix="write them into the section `data`",
        )
    ]


def split_problem(section: str, split: str, outlook: Outlook, *, grouped_train: bool = False) -> list[XpipeError]:
    """Why a stage cannot work on a split with labels. Empty where it can, or where that is not known yet.

    grouped_train: training labels that come from groups are enough.
    """
    have = list(outlook.labelled or ())
    if outlook.splits is None or split in have or (grouped_train and split == "train" and "train" in outlook.splits):
        if outlook.rows.get(split) == 0:
            return [
                DataError(f"split {split!r} has no rows, but `{section}` works on it", fix=f"another {section}.split")
            ]
        return []
    known = ", ".join(outlook.splits)
    others = [f"{section}.split={name}" for name in have if name != "train" or section == "verify"]
    choose = f", or choose another split: {' or '.join(others)}" if others else ""
    what = f"there is no split {split!r} with labels to {section}" + (" on" if section == "evaluate" else "")
    tables = getattr(outlook.sections.get("data"), "train", None) is not None
    add = f"name its rows: data.{split} or data.holdout" if tables else f"put {split}.txt beside the training file"
    fix = f"{add}{choose}, or leave the section `{section}` out"
    return [ConfigError(what, where=f"{section}.split", why=f"the data has {known}", fix=fix)]
