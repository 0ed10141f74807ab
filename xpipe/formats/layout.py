"""Which files of a folder are what: a dataset's format and roles, told by names alone.

Holds no reading of matrices: `dataset` does that with what is found here.
"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict

from xpipe.errors import DataError
from xpipe.ground import files

SPLITS = ("train", "test", "dev")
_WORDS = {"train": "train", "trn": "train", "test": "test", "tst": "test", "dev": "dev", "val": "dev", "valid": "dev"}
_ANY_SPLIT = "|".join(_WORDS)
_SPLIT = f"(?P<split>{_ANY_SPLIT})"
_ROLES = {  # stem of a matrix file -> role; text has its own names, since labels.txt holds names
    "features": ("X_Xf", "X|features"),
    "labels": ("X_Y", "Y|labels"),
    "membership": ("X_Y1|Y1|membership", "X_Y1|Y1|membership"),
    "group_labels": ("X_Y2|Y2|group_labels", "X_Y2|Y2|group_labels"),
}
_NAMES = {
    "label_names": ("labels.txt", "Yf.txt", "label_names.txt"),
    "feature_names": ("features.txt", "Xf.txt", "feature_names.txt"),
}
LOOKED_FOR = (
    "train.txt or NAME_train.txt (XMC text; test, dev likewise); NAME_data.txt with NAME_trSplit.txt and "
    "NAME_tstSplit.txt; trn_X_Xf.txt and trn_X_Y.txt (split files; tst_ likewise); X.trn.npz and Y.trn.npz, or "
    "features.npz and labels.npz; train.svm; dataset.json (Parquet); Y1.* and Y2.*, or membership.* and "
    "group_labels.*; any text may end in .gz"
)
FORMATS = {
    "xmc": "XMC text",
    "split": "split files",
    "npz": "npz matrices",
    "parquet-matrices": "Parquet matrices",
    "svmlight": "svmlight text",
    "parquet": "an emitted Parquet dataset",
}


@dataclasses.dataclass(frozen=True)
class SplitFiles:
    """Names of the files of one split; `samples` holds features and labels together, `rows` chooses rows of it."""

    samples: str | None = None
    features: str | None = None
    labels: str | None = None
    membership: str | None = None
    group_labels: str | None = None
    group_ids: str | None = None
    filter_labels: str | None = None
    rows: str | None = None


@dataclasses.dataclass(frozen=True)
class Layout:
    """A folder's format (a key of FORMATS), a sentence that says what was found, and the files by split and role."""

    folder: str
    format: str
    sentence: str
    splits: dict[str, SplitFiles]
    label_names: str | None
    feature_names: str | None
    synthetic: bool  # SYNTHETIC.json is there: a generated stand-in


def recognise(folder: str, *, format: str | None = None) -> Layout:
    """Say which files of the folder hold a dataset; `format` chooses where there are several.

    Raises DataError, with a list of what is there and of the names looked for, where nothing or too much is found.
    """
    folder = str(folder)
    found = files.listing(folder)
    if not found and not files.is_folder(folder):
        raise DataError(f"there is no folder {folder}", fix="check the path; relative paths start where you are")
    if "dataset.json" in found and format in (None, "parquet"):
        return _emitted(folder, found)
    formats = _formats(folder, found)
    if format is not None:
        formats = {name: splits for name, splits in formats.items() if name == format}
    if not formats:
        raise DataError(
            f"no dataset in {folder}" + (f" in format {format}" if format else ""),
            why="it holds " + (_list(found) if found else "nothing"),
            fix=f"names looked for: {LOOKED_FOR}",
        )
    if len(formats) > 1:
        raise DataError(
            f"{folder} holds more than one dataset",
            why="; ".join(f"{FORMATS[name]}: {_list(_names_of(splits))}" for name, splits in formats.items()),
            fix="format=" + " or ".join(repr(name) for name in formats) + ", or move the others away",
        )
    ((name, splits),) = formats.items()
    for split, roles in splits.items():
        _check_complete(folder, split, roles)
    return _layout(folder, found, name, {split: SplitFiles(**splits[split]) for split in SPLITS if split in splits})


def _formats(folder: str, found: list[str]) -> dict[str, dict[str, dict[str, str]]]:
    """format -> split -> role -> file name; files that go with any format are added to each."""
    formats: dict = defaultdict(lambda: defaultdict(dict))
    beside: dict = defaultdict(dict)  # split -> role -> name
    whole: dict = {}  # NAME_data.txt and its index splits

    def put(table: dict, role: str, name: str) -> None:
        if role in table:
            raise DataError(
                f"two files for {role.replace('_', ' ')}: {table[role]} and {name}",
                where=folder,
                fix="move one of them away: which one is meant is not guessed",
            )
        table[role] = name

    for name in found:
        stem = name.removesuffix(".gz")
        if match := re.fullmatch(rf"filter_labels_{_SPLIT}\.txt", stem):
            put(beside[_WORDS[match["split"]]], "filter_labels", name)
        elif match := re.fullmatch(rf"{_SPLIT}_groups\.txt", stem):
            put(beside[_WORDS[match["split"]]], "group_ids", name)
        elif match := re.fullmatch(r"(.*[_-])?(?P<split>tr|trn|train|ts|tst|test)_?[sS]plit\.txt", stem):
            put(whole, "train" if match["split"].startswith("tr") else "test", name)
        elif re.fullmatch(r"(.*[_-])?data\.txt", stem):
            put(whole, "samples", name)
        elif matched := _matrix_role(name, stem):
            form, split, role = matched
            put((formats[form] if role in ("features", "labels") else beside)[split], role, name)
        elif match := re.fullmatch(rf"(.*[_.-])?{_SPLIT}\.txt", stem):
            put(formats["xmc"][_WORDS[match["split"]]], "samples", name)
        elif match := re.fullmatch(rf"(?:(?:.*[_.-])?{_SPLIT}|.*)\.(svm|svmlight|libsvm)", stem):
            put(formats["svmlight"][_WORDS[match["split"] or "train"]], "samples", name)
    if "samples" in whole:
        for split in ("train", "test") if "train" in whole or "test" in whole else ("train",):
            put(formats["xmc"][split], "samples", whole["samples"])
            if split in whole:
                put(formats["xmc"][split], "rows", whole[split])
    for splits in formats.values():
        for split, roles in beside.items():
            if split in splits:
                splits[split].update(roles)
    return formats


def _matrix_role(name: str, stem: str) -> tuple[str, str, str] | None:
    """(format, split, role) of a file that holds one matrix, told by its name."""
    binary = name.endswith((".npz", ".parquet"))
    body = re.sub(r"\.(npz|parquet|txt)$", "", stem)
    if body == stem:
        return None
    for role, (text_stems, binary_stems) in _ROLES.items():
        stems = binary_stems if binary else text_stems
        if binary and role in ("features", "labels"):
            stems += f"|{text_stems}"
        pattern = rf"(?:{_SPLIT}_)?(?:{stems})|(?:{stems})[._](?P<after>{_ANY_SPLIT})"
        match = re.fullmatch(pattern, body)
        if match:
            split = _WORDS[match["split"] or match["after"] or "train"]
            form = "npz" if name.endswith(".npz") else "parquet-matrices" if binary else "split"
            return form, split, role
    return None


def _check_complete(folder: str, split: str, roles: dict[str, str]) -> None:
    have = set(roles)
    grouped = "group_labels" in have and ("membership" in have or "group_ids" in have)
    missing = []
    if "samples" not in have and "features" not in have:
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
    splits = {split: SplitFiles(samples=f"split={split}") for split in SPLITS if split in about["splits"]}
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
    sentence = f"{folder} holds {FORMATS[form]}: {parts}" + (f"; names in {', '.join(names)}" if names else "")
    sentence += "; a SYNTHETIC stand-in, not the real dataset" if synthetic else ""
    return Layout(folder, form, sentence, splits, chosen["label_names"], chosen["feature_names"], synthetic)


def _describe(split_files: SplitFiles) -> str:
    spoken = [
        (split_files.samples, "{}"),
        (split_files.rows, "rows of {}"),
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
