"""Which files of a folder are what: the format of a dataset and the role of each file, told by names alone.

Holds no reading of matrices: `reading` says how the files found here are read.
"""

from __future__ import annotations

import dataclasses

from xpipe.errors import DataError
from xpipe.formats.file_names import LOOKED_FOR, SPLITS, find_formats, formats, split_folder
from xpipe.ground import files

_NAMES = {
    "label_names": ("labels.txt", "Yf.txt", "label_names.txt"),
    "feature_names": ("features.txt", "Xf.txt", "feature_names.txt"),
}


@dataclasses.dataclass(frozen=True)
class SplitFiles:
    """The names of the files of one split, by their role; None where there is none.

    Attributes
    ----------
    samples : str, optional
        Features and labels in one file.
    texts : str, optional
        One text per line, instead of features.
    features, labels : str, optional
        One matrix each, where there is no file of `samples`.
    membership, group_labels : str, optional
        Groups of samples (Y1) and labels of groups (Y2).
    group_ids : str, optional
        One group id per line, instead of `membership`.
    filter_labels : str, optional
        Pairs of row and label that metrics leave out.
    rows : str, optional
        The index split that names the rows of `samples` which belong to the split.
    """

    samples: str | None = None
    texts: str | None = None
    features: str | None = None
    labels: str | None = None
    membership: str | None = None
    group_labels: str | None = None
    group_ids: str | None = None
    filter_labels: str | None = None
    rows: str | None = None


@dataclasses.dataclass(frozen=True)
class Layout:
    """Which files of a folder are what.

    Attributes
    ----------
    folder : str
        Where the files lie.
    format : str
        xmc, split, npz, parquet-matrices, raw (texts by line), svmlight or parquet (an emitted dataset).
    sentence : str
        What was found, in words.
    splits : dict of str to SplitFiles
        The file names of each split.
    label_names, feature_names : str, optional
        The files of names.
    synthetic : bool
        Whether SYNTHETIC.json is there: the data is a generated stand-in.
    """

    folder: str
    format: str
    sentence: str
    splits: dict[str, SplitFiles]
    label_names: str | None
    feature_names: str | None
    synthetic: bool


def recognise(folder: str, *, format: str | None = None) -> Layout:
    """Say which files of a folder hold a dataset, by their names alone.

    Parameters
    ----------
    folder : str
        A local path or an fsspec URL.
    format : str, optional
        Chooses where the folder holds datasets in several formats: xmc, split, npz, parquet-matrices, svmlight or
        parquet (an emitted dataset).

    Returns
    -------
    Layout
        The format, the files by split and role, and a sentence that says what was found.

    Raises
    ------
    DataError
        Where nothing or too much is found. The message lists what is there and which names are looked for.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> from xpipe.formats import recognise
    >>> folder = tempfile.TemporaryDirectory()
    >>> for name in ("eurlex_train.txt", "eurlex_test.txt.gz"):
    ...     pathlib.Path(folder.name, name).touch()
    >>> layout = recognise(folder.name)
    >>> layout.format, layout.splits["test"].samples
    ('xmc', 'eurlex_test.txt.gz')
    >>> folder.cleanup()
    """
    folder = str(folder)
    found = files.listing(folder)
    if not found and not files.is_folder(folder):
        raise DataError(f"there is no folder {folder}", fix="check the path; relative paths start where you are")
    if "dataset.json" in found and format in (None, "parquet"):
        return _emitted(folder, found)
    there = find_formats(folder, found)
    if format is not None:
        there = {name: splits for name, splits in there.items() if name == format}
    if not there:
        raise DataError(
            f"no dataset in {folder}" + (f" in format {format}" if format else ""),
            why="it holds " + (_list(found) if found else "nothing"),
            fix=f"names looked for: {LOOKED_FOR}",
        )
    if len(there) > 1:
        raise DataError(
            f"{folder} holds more than one dataset",
            why="; ".join(f"{formats()[name]}: {_list(_names_of(splits))}" for name, splits in there.items()),
            fix="format=" + " or ".join(repr(name) for name in there) + ", or move the others away",
        )
    ((name, splits),) = there.items()
    for split, roles in splits.items():
        _check_complete(folder, split, roles)
    return _layout(folder, found, name, {split: SplitFiles(**splits[split]) for split in SPLITS if split in splits})


def _check_complete(folder: str, split: str, roles: dict[str, str]) -> None:
    have = set(roles)
    grouped = "group_labels" in have and ("membership" in have or "group_ids" in have)
    missing = []
    if not have & {"samples", "features", "texts"}:
        missing.append("features")
    if "samples" not in have and "labels" not in have and not grouped:
        missing.append("labels (or membership and group_labels)")
    if "membership" in have and "group_labels" not in have:
        missing.append("group_labels (Y2), which belong to membership (Y1)")
    if "group_labels" in have and {"membership", "group_ids"} <= have:
        raise DataError(
            f"two files of groups for {split}: {roles['membership']} and {roles['group_ids']}", where=folder,
            fix="move one of them away: which one is meant is not guessed",
        )  # fmt: skip
    if "group_labels" in have and not grouped:
        missing.append("membership (Y1), which belongs to group_labels (Y2)")
    if missing:
        raise DataError(
            f"the {split} split has no {' and no '.join(missing)}",
            where=folder,
            why=f"found for it: {_list(sorted(roles.values()))}",
            fix=f"names looked for: {LOOKED_FOR}",
        )


def _emitted(folder: str, found: list[str]) -> Layout:
    from xpipe.formats.emitted import read_about

    about = read_about(folder)
    if not about["splits"]:
        raise DataError("an emitted dataset without splits", where=folder, fix="emit the dataset again")
    parts = {split: about["splits"][split]["parts"] for split in SPLITS if split in about["splits"]}
    splits = {
        split: SplitFiles(samples=files.parent(listed[0]["path"]) if listed else split_folder(split))
        for split, listed in parts.items()
    }
    return _layout(folder, found, "parquet", splits, synthetic=bool(about.get("synthetic")))


def _layout(
    folder: str, found: list[str], form: str, splits: dict[str, SplitFiles], *, synthetic: bool = False
) -> Layout:
    chosen: dict[str, str | None] = {}
    for role, spellings in _NAMES.items():
        there = [name for name in found if name.removesuffix(".gz") in spellings]
        if len(there) > 1:
            raise DataError(
                f"two files of {role.replace('_', ' ')}: {there[0]} and {there[1]}",
                where=folder,
                fix="move one of them away",
            )
        chosen[role] = there[0] if there and form != "parquet" else None
    synthetic = synthetic or "SYNTHETIC.json" in found
    parts = "; ".join(f"{split}: {_describe(split_files)}" for split, split_files in splits.items())
    names = [name for name in chosen.values() if name]
    sentence = f"{folder} holds {formats()[form]}: {parts}" + (f"; names in {', '.join(names)}" if names else "")
    sentence += "; a SYNTHETIC stand-in, not the real dataset" if synthetic else ""
    return Layout(folder, form, sentence, splits, chosen["label_names"], chosen["feature_names"], synthetic)


def _describe(split_files: SplitFiles) -> str:
    spoken = [
        (split_files.samples, "{}"),
        (split_files.rows, "rows of {}"),
        (split_files.texts, "texts {}"),
        (split_files.features, "features {}"),
        (split_files.labels, "labels {}"),
        (split_files.membership, "membership {}"),
        (split_files.group_labels, "group labels {}"),
        (split_files.group_ids, "group ids {}"),
        (split_files.filter_labels, "filter {}"),
    ]
    return ", ".join(form.format(name) for name, form in spoken if name)


def _names_of(splits: dict[str, dict[str, str]]) -> list[str]:
    return sorted({name for roles in splits.values() for name in roles.values()})


def _list(names: list[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
