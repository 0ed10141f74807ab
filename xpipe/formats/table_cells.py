"""What one cell of a table means: an id, a text, labels, groups, a number or a category. Same value, whatever the file.

Holds no files and no rows. A missing cell is None; an empty text counts as missing, because CSV cannot tell them apart.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any

NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
LONGEST_SHOWN = 60


class WrongCell(ValueError):
    """A cell that is not what its column is for. Its text says what it is; fix: what to try."""

    def __init__(self, what: str, fix: str = ""):
        super().__init__(what)
        self.fix = fix


def kind_of(value: Any) -> str:
    """The kind of a value, for people."""
    names = {str: "text", bool: "true or false", int: "a whole number", float: "a number", list: "a list",
             dict: "an object", bytes: "bytes", type(None): "missing"}  # fmt: skip
    return names.get(type(value), f"a {type(value).__name__}")


def shown(value: Any) -> str:
    """A value as a message repeats it."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."


def text_cell(value: Any) -> str | None:
    """A text; whole numbers are their digits."""
    if value is None or value == "":
        return None
    if type(value) is str:
        return value
    if type(value) is int:
        return str(value)
    raise WrongCell(f"{shown(value)} is {kind_of(value)}, not text", "name a column of text")


def id_cell(value: Any) -> str:
    """An id: a text or a whole number. Every row has one."""
    if value is None or (type(value) is str and not value.strip()):
        raise WrongCell("an id is missing", "give every row an id of its own, or leave `id` out")
    if type(value) is str:
        return value
    if type(value) is int:
        return str(value)
    fix = "write ids as text or whole numbers; pandas turns whole numbers with gaps into floats"
    raise WrongCell(f"the id {shown(value)} is {kind_of(value)}, not text or a whole number", fix)


def name_cell(value: Any, what: str) -> str:
    """The name of a label or group, without spaces around it."""
    if type(value) is int:
        return str(value)
    if type(value) is not str:
        raise WrongCell(f"the {what} {shown(value)} is {kind_of(value)}, not a name", f"write {what}s as text")
    name = value.strip()
    if not name:
        raise WrongCell(f"an empty {what}", f"give its name, or remove it: a row without {what}s has an empty cell")
    return name


def labels_cell(value: Any, separator: str | None) -> list[str]:
    """The labels of a row, each once and sorted: a list, a text with separators, or a text with a list in JSON."""
    if value is None or value == "":
        return []
    if type(value) is list:
        return _names(value, "label")
    if separator is not None:
        if type(value) not in (str, int):
            raise WrongCell(
                f"{shown(value)} is {kind_of(value)}, not labels", f"write labels with {separator!r} between"
            )
        if not str(value).strip():
            return []
        return _names(str(value).split(separator), "label")
    if type(value) is str:
        return _names(_json_list(value), "label")
    fix = "write a list of names, or a text with `separator`"
    raise WrongCell(f"{shown(value)} is {kind_of(value)}, not a list of labels", fix)


def groups_cell(value: Any) -> list[str]:
    """The groups of a row, each once and sorted: one name, or a list; a text may be a list in JSON."""
    if value is None or value == "":
        return []
    if type(value) is str and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except ValueError:
            return [name_cell(value, "group")]
    return _names(value, "group") if type(value) is list else [name_cell(value, "group")]


def number_cell(value: Any) -> float | None:
    """A finite number; None where it is missing."""
    if value is None or value == "":
        return None
    if type(value) is str:
        if not NUMBER.fullmatch(value.strip()):
            raise WrongCell(f"{shown(value)} is not a number", "write 1234.5; or declare the column as category")
        value = float(value)
    if type(value) not in (int, float, Decimal):
        raise WrongCell(f"{shown(value)} is {kind_of(value)}, not a number", "write numbers such as 1234.5")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not abs(number) <= 3.4e38:
        raise WrongCell(f"the number {shown(value)} is not finite as float32", "leave it empty where it is not known")
    return number


def category_cell(value: Any) -> str | None:
    """A category: a text, a whole number, true or false; None where it is missing."""
    if type(value) is bool:
        return "true" if value else "false"
    if value is None or type(value) in (str, int):
        text = None if value is None else str(value).strip()
        return text or None
    raise WrongCell(f"{shown(value)} is {kind_of(value)}, not a category", "write it as text")


def _names(values: list[Any], what: str) -> list[str]:
    """The distinct names of a list, sorted."""
    return sorted({name_cell(value, what) for value in values})


def _json_list(text: str) -> list[Any]:
    """The list that a text holds in JSON. Raises WrongCell where it holds none."""
    fix = 'give data.separator, such as ";"; or write a list in JSON: ["a", "b"]'
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise WrongCell(f"{shown(text)} is not a list of labels", fix) from None
    if type(found) is not list:
        raise WrongCell(f"{shown(text)} is not a list of labels", fix)
    return found
