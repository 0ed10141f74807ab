"""What stage read will give and where it is bound to fail, known from names and headers before any row is read.

Holds no reading of rows; what a file only shows later is left to the stage itself.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from xpipe.engine.stage import Outlook
from xpipe.errors import ConfigError, DataError, XpipeError
from xpipe.ground import files


def foresee(params: Any, outlook: Outlook) -> Outlook:
    """Splits, labels and rows of the data. Raises DataError where the folder holds no dataset."""
    from xpipe.stages.read.params import has_files, layout_of

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


def _foresee_stand_in(params: Any, outlook: Outlook) -> Outlook:
    from xpipe.synth.stand_in import spec_of

    try:
        spec = spec_of(str(params.name))
    except ConfigError:
        return outlook  # `preflight` tells it
    rows = {split: spec.rows(split) for split in ("train", "test", "dev") if spec.rows(split)}
    return dataclasses.replace(outlook, splits=tuple(rows), labelled=tuple(rows), rows=rows, n_labels=spec.n_labels)


def _from_headers(params: Any, layout: Any) -> tuple[dict[str, int], list[int]]:
    """(most rows by split, numbers of labels), as far as headers and parameters say."""
    rows: dict[str, int] = {}
    widths = [params.n_labels] if params.n_labels else []
    if layout.format == "parquet":
        from xpipe.formats.parquet import read_about

        about = read_about(layout.folder)
        return {name: int(split["rows"]) for name, split in about["splits"].items()}, [int(about["n_labels"])]
    for name, split in layout.splits.items():
        kind = {"xmc": "xmc", "split": "sparse"}.get(layout.format)
        if kind is None or not params.header:
            continue
        source = _header(files.join(layout.folder, str(split.samples or split.features)), kind)
        if source is not None and source.n_rows is not None:
            rows[name] = source.n_rows
        labels = source if kind == "xmc" else split.labels and _header(files.join(layout.folder, split.labels), kind)
        if labels:
            widths.append(labels.n_labels if kind == "xmc" else labels.n_features)
    return rows, widths


def _header(path: str, kind: str) -> Any:
    """The text file as its header describes it; None where there is none to believe."""
    from xpipe.formats.text import open_text

    if files.is_local(path) and not os.path.isfile(path):
        return None  # a pipe would be waited for
    try:
        return open_text(path, kind, header=True)
    except (XpipeError, OSError):
        return None


def preflight(params: Any, outlook: Outlook) -> list[XpipeError]:
    """What is bound to fail while the data is read."""
    from xpipe.stages.read.params import has_files, layout_of

    problems: list[XpipeError] = []
    synthetic = params.if_missing == "synthesize" and not has_files(params)
    if params.name is not None:
        from xpipe.synth.stand_in import spec_of

        try:
            spec_of(params.name)
        except ConfigError as error:
            problems.append(ConfigError(f"data.name: {error.what}", why=error.why, fix=error.fix))
    if synthetic:
        return problems
    layout = layout_of(params, {})
    if "train" not in layout.splits:
        problems.append(
            DataError(
                "the data has no training rows",
                where=layout.folder,
                why="it has " + (", ".join(layout.splits) or "no split"),
                fix="name the file with the training rows train.txt, or as the README's table of formats says",
            )
        )
    if params.hide_labels and "train" in layout.splits and layout.splits["train"].group_labels is not None:
        problems.append(
            ConfigError(
                "data.hide_labels needs data with labels of samples",
                why="this data has labels of groups (Y2)",
                fix="leave hide_labels out",
            )
        )
    if any(split.rows for split in layout.splits.values()) and params.split_base is None:
        problems.append(
            DataError(
                "data.split_base must be given",
                where=layout.folder,
                why="the data comes with index splits, and numbers alone do not say whether they count from 0 or 1",
                fix="split_base: 1 for files of the XMC repository",
            )
        )
    headerless = layout.format == "svmlight" or (layout.format in ("xmc", "split") and not params.header)
    wanted = ("n_features",) if layout.format == "split" else ("n_features", "n_labels")
    missing = [f"data.{name}" for name in wanted if getattr(params, name) is None]
    if headerless and missing and layout.format != "split":
        problems.append(
            DataError(
                f"{' and '.join(missing)} must be given",
                where=layout.folder,
                why="files without a header do not say how wide they are",
                fix="write them into the section `data`",
            )
        )
    return problems


def split_problem(section: str, split: str, outlook: Outlook, *, grouped_train: bool = False) -> list[XpipeError]:
    """Why a stage cannot work on a split with labels; an empty list where it can, or where that is not known yet.

    grouped_train: training labels that come from groups will do.
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
    fix = f"put {split}.txt beside the training file{choose}, or leave the section `{section}` out"
    return [ConfigError(what, where=f"{section}.split", why=f"the data has {known}", fix=fix)]
