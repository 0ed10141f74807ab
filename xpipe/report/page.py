"""What a report is made of: sections with paragraphs, tables, pictures and code. Plain values, no HTML.

Holds no figures and no template. Every text may come from a file of the user: `html` escapes it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xpipe.errors import printable

LONGEST_TEXT = 400  # characters of a cell or a name; more is cut
NOTHING = "–"

Value = str | int | float | None


@dataclass(frozen=True)
class Cell:
    """What a table shows, and the value it is sorted by (None: sorted last)."""

    text: str
    value: str | float | None


@dataclass(frozen=True)
class Column:
    """A column of a table. digits: after the decimal point, for numbers; None: as they are."""

    name: str
    number: bool = False
    digits: int | None = None


@dataclass(frozen=True)
class Table:
    """A table that readers can sort. more: rows that are left out."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    more: int = 0
    kind: str = "table"


@dataclass(frozen=True)
class Picture:
    """A chart as SVG, with its title, its text alternative, and its numbers as a table."""

    title: str
    svg: str
    alternative: str
    numbers: Table
    note: str = ""
    wide: bool = False  # takes the whole width
    kind: str = "picture"

    @property
    def natural_width(self) -> float:
        """The width in pixels at which it was drawn."""
        found = re.match(r'<svg viewBox="0 0 ([\d.]+) ', self.svg)
        return float(found[1]) if found else 0.0


@dataclass(frozen=True)
class Pictures:
    """Pictures side by side where the window is wide enough."""

    pictures: tuple[Picture, ...]
    kind: str = "pictures"


@dataclass(frozen=True)
class Beside:
    """Blocks side by side where the window is wide enough."""

    blocks: tuple[Any, ...]
    kind: str = "beside"


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of text. warning: stands out."""

    text: str
    warning: bool = False
    kind: str = "paragraph"


@dataclass(frozen=True)
class Facts:
    """Short facts: pairs of a name and a value."""

    facts: tuple[tuple[str, str], ...]
    kind: str = "facts"


@dataclass(frozen=True)
class Code:
    """Text to copy: a command, or a file."""

    title: str
    text: str
    kind: str = "code"


@dataclass(frozen=True)
class Example:
    """Something with a heading of its own: a group with its members and owners, a label set with its conflict."""

    title: str
    blocks: tuple[Any, ...]
    kind: str = "example"


@dataclass(frozen=True)
class Heading:
    """The title of what follows in a section."""

    text: str
    kind: str = "heading"


@dataclass(frozen=True)
class Section:
    """A section of a report. name: the anchor of its title."""

    name: str
    title: str
    blocks: tuple[Any, ...]


@dataclass(frozen=True)
class Page:
    """A whole report. subtitle: one line below the title."""

    title: str
    subtitle: str
    synthetic: bool
    sections: tuple[Section, ...]


def shown(text: object, longest: int = LONGEST_TEXT) -> str:
    """A text that is safe to show: control characters become visible, and what is too long is cut."""
    return printable(str(text), longest)


def cell(value: Value, digits: int | None = None) -> Cell:
    """A cell of a table: numbers with separators and `digits` after the point, texts made safe to show."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return Cell(NOTHING, None)
    if isinstance(value, str):
        return Cell(shown(value), value[:LONGEST_TEXT].casefold())
    if digits == 0 or (isinstance(value, int) and digits is None):
        return Cell(f"{value:,.0f}", float(value))
    return Cell(f"{value:,.{digits}f}" if digits is not None else f"{value:.4g}", float(value))


def numbered(number: int) -> Cell:
    """The number of a row, a label or a group: a name, not an amount."""
    return Cell(str(number), float(number))


def table(columns: Sequence[Column], rows: Iterable[Sequence[Value | Cell]], caption: str = "", more: int = 0) -> Table:
    """A table of plain values; a cell may also be given as a `Cell`."""
    made = tuple(
        tuple(
            value if isinstance(value, Cell) else cell(value, column.digits)
            for column, value in zip(columns, row, strict=True)
        )
        for row in rows
    )
    return Table(tuple(columns), made, caption, more)
