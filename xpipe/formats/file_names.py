"""Which file names are known: a table of patterns, each with the format and the role of its files.

Holds no reading and no listing of folders, and imports nothing slow: names come in, formats and roles go out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from xpipe.errors import DataError
from xpipe.formats.matrix_formats import MATRIX_FORMATS

Roles = dict[str, str]  # role -> file name
SPLITS = ("train", "test", "dev")
ROWS_FOLDER = "rows"  # of an emitted dataset: nothing but rows lies below it, so that tools may take all of its files
SHORT_SPLITS = {"train": "trn", "test": "tst", "dev": "dev"}  # as PECOS and split files call them
LOOKED_FOR = (
    "train.txt or NAME_train.txt (XMC text; test, dev likewise); NAME_data.txt with NAME_trSplit.txt and "
    "NAME_tstSplit.txt; trn_X_Xf.txt and trn_X_Y.txt (split files; tst_ likewise); X.trn.npz and Y.trn.npz, or "
    "features.npz and labels.npz; X.trn.txt (one text per line) and Y.trn.npz; train.svm; dataset.json (Parquet); "
    "Y1.* and Y2.*, or membership.* and "
    "group_labels.*; any text may end in .gz"
)
SVMLIGHT_ENDINGS = (".svm", ".svmlight", ".libsvm")
_ANY = ""  # the format of files that go with any format
RAW = "raw"  # the format of X.trn.txt beside Y.trn.npz: texts, not numbers
_CUT = "cut"  # the format of NAME_data.txt and its index splits: XMC text, cut into splits
_WORDS = {
    "train": "train", "trn": "train", "tr": "train",
    "test": "test", "tst": "test", "ts": "test",
    "dev": "dev", "val": "dev", "valid": "dev",
}  # fmt: skip
_ANY_SPLIT = "train|trn|test|tst|dev|val|valid"
_SPLIT = f"(?P<split>{_ANY_SPLIT})"
_TEXT = r"\.txt(?:\.gz)?"
_SVMLIGHT = rf"(?:{'|'.join(map(re.escape, SVMLIGHT_ENDINGS))})(?:\.gz)?"
_ROLES = {  # role -> stems of a matrix file in text, and further ones in other formats: labels.txt holds names
    "features": ("X_Xf", "|X|features"),
    "labels": ("X_Y", "|Y|labels"),
    "membership": ("X_Y1|Y1|membership", ""),
    "group_labels": ("X_Y2|Y2|group_labels", ""),
}


def split_folder(split: str) -> str:
    """The folder of the rows of a split in an emitted dataset."""
    return f"{ROWS_FOLDER}/split={split}"


def formats() -> dict[str, str]:
    """All formats of a folder by name, each with its title for people."""
    return {
        "xmc": "XMC text",
        "split": "split files",
        **{each.name: each.title for each in MATRIX_FORMATS},
        RAW: "texts by line",
        "svmlight": "svmlight text",
        "parquet": "an emitted Parquet dataset",
    }


class Pattern(NamedTuple):
    """File names of one kind: a regular expression, the format they belong to, and their role in it."""

    names: str
    format: str
    role: str


def patterns() -> list[Pattern]:
    """All file names that are known. The first pattern that matches a name counts."""
    return [
        Pattern(rf"filter_labels_{_SPLIT}{_TEXT}", _ANY, "filter_labels"),
        Pattern(rf"{_SPLIT}_groups{_TEXT}", _ANY, "group_ids"),
        Pattern(rf"(?:.*[_-])?(?P<split>tr|trn|train|ts|tst|test)_?[sS]plit{_TEXT}", _CUT, "rows"),
        Pattern(rf"(?:.*[_-])?data{_TEXT}", _CUT, "samples"),
        *_matrix_patterns(_TEXT, "split", other_stems=False),
        *(each for form in MATRIX_FORMATS for each in _matrix_patterns(re.escape(form.ending), form.name)),
        Pattern(rf"X\.(?P<after>{_ANY_SPLIT}){_TEXT}", RAW, "texts"),
        Pattern(rf"(?:.*[_.-])?{_SPLIT}{_TEXT}", "xmc", "samples"),
        Pattern(rf"(?:(?:.*[_.-])?{_SPLIT}|.*){_SVMLIGHT}", "svmlight", "samples"),
    ]


def _matrix_patterns(ending: str, form: str, other_stems: bool = True) -> Iterator[Pattern]:
    """Names of files with one matrix: `trn_STEM`, `STEM.trn` or `STEM`, which is of the training split."""
    for role, (stems, others) in _ROLES.items():
        stem = f"(?:{stems}{others if other_stems else ''})"
        names = rf"(?:(?:{_SPLIT}_)?{stem}|{stem}[._](?P<after>{_ANY_SPLIT})){ending}"
        yield Pattern(names, form if role in ("features", "labels") else _ANY, role)


def find_formats(folder: str, found: list[str]) -> dict[str, dict[str, Roles]]:
    """format -> split -> role -> file name; files that go with any format are added to each."""
    by_format: dict[str, dict[str, Roles]] = {}
    known = patterns()
    for name in found:
        place = _place(name, known)
        if place is not None:
            form, split, role = place
            _put(folder, by_format.setdefault(form, {}).setdefault(split, {}), role, name)
    beside, cut = by_format.pop(_ANY, {}), by_format.pop(_CUT, {})
    _join_raw(folder, by_format)
    for split, roles in _cut_splits(cut).items():
        for role, name in roles.items():
            _put(folder, by_format.setdefault("xmc", {}).setdefault(split, {}), role, name)
    for splits in by_format.values():
        for split, roles in splits.items():
            roles.update(beside.get(split, {}))
    return by_format


def _place(name: str, known: list[Pattern]) -> tuple[str, str, str] | None:
    """(format, split, role) of a file by its name; None for a name that is not known."""
    for pattern in known:
        match = re.fullmatch(pattern.names, name)
        if match:
            words = match.groupdict()
            return pattern.format, _WORDS[words.get("split") or words.get("after") or "train"], pattern.role
    return None


def _put(folder: str, roles: Roles, role: str, name: str) -> None:
    if role in roles:
        raise DataError(
            f"two files for {role.replace('_', ' ')}: {roles[role]} and {name}",
            where=folder,
            fix="move one of them away: which one is meant is not guessed",
        )
    roles[role] = name


def _join_raw(folder: str, by_format: dict[str, dict[str, Roles]]) -> None:
    """Give texts by line the labels of the matrices beside them. X.trn.txt without such labels is XMC text."""
    raw = by_format.pop(RAW, {})
    matrices = [by_format[form.name] for form in MATRIX_FORMATS if form.name in by_format]
    labels = [splits for splits in matrices if any("labels" in splits.get(split, {}) for split in raw)]
    if not labels:
        for split, roles in raw.items():
            _put(folder, by_format.setdefault("xmc", {}).setdefault(split, {}), "samples", roles["texts"])
        return
    for split, roles in raw.items():
        for splits in labels:
            if "labels" in splits.get(split, {}):
                _put(folder, roles, "labels", splits[split]["labels"])
    by_format[RAW] = raw
    for form in [form.name for form in MATRIX_FORMATS if form.name in by_format]:
        if not any("features" in roles for roles in by_format[form].values()):
            del by_format[form]  # its labels belong to the texts


def _cut_splits(cut: dict[str, Roles]) -> dict[str, Roles]:
    """The splits of NAME_data.txt by its index split files. A split without such a file has all rows.

    There is a test split only where there is an index split file.
    """
    whole = cut.get("train", {}).get("samples")
    if whole is None:
        return {}
    has_index = any("rows" in roles for roles in cut.values())
    return {
        split: {"samples": whole, **cut.get(split, {})} for split in (("train", "test") if has_index else ("train",))
    }
