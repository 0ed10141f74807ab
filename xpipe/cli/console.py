"""A console that makes every text safe to print, and tables in one style. Holds no particular table.

Texts may come from anywhere (names of labels, files, runs), so they may hold control characters and markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from xpipe.errors import printable_lines

SYNTHETIC = "SYNTHETIC: a generated stand-in with the published shape, not the real dataset"
USUAL_RANKS = (1, 3, 5)
WRAPPED = 30  # characters in which a text of several words can be read


class SafeConsole(Console):
    """Prints text as it is: brackets are no markup, `:x:` is no emoji, and control characters become visible."""

    def __init__(self, **options: Any):
        """Make a console. options: those of rich's console."""
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Make a string printable. rich calls this for every string: lines, titles, and cells of tables."""
        return super().render_str(printable_lines(text), **options)


def new_console() -> Console:
    """A console on stdout."""
    console = SafeConsole()
    if not console.is_terminal:
        console.width = max(console.width, 150)  # a log has no edge to wrap at
    return console


def print_table(table: Table, drop: Sequence[str] = (), note: str = "") -> None:
    """Print a table on stdout. Where it is too narrow, leave columns out, and say which.

    drop: the columns that may go, in this order. Other columns stay; texts of several words are wrapped. note: where
    the figures of columns that went are, such as "results.json has them".
    """
    console, gone = new_console(), []
    wanted = [name for name in drop if any(column.header == name for column in table.columns)]
    while wanted and _least_width(console, table) > console.width:
        gone.append(wanted.pop(0))
        table.columns = [column for column in table.columns if column.header != gone[-1]]
    for number, column in enumerate(table.columns):
        column._index = number  # rich finds the cells of a row by it
    console.print(table)
    if gone:
        console.print(f"too narrow for {', '.join(gone)}{': ' + note if note else ''}", style="dim")


def _least_width(console: Console, table: Table) -> int:
    """The width in which no number and no name of a table is broken, and texts have some room."""
    widths = []
    for column in table.columns:
        cells = [str(cell) for cell in column.cells]
        longest = max(map(len, cells), default=0)
        own = min(longest, WRAPPED) if any(" " in cell for cell in cells) else longest
        widths.append(max(own, *map(len, str(column.header).split() or [""])))
    return sum(widths) + 3 * len(widths) + 1


def new_table(*columns: str, numbers: tuple[str, ...] = (), title: str | None = None) -> Table:
    """An empty table with these columns. numbers: the columns that are aligned to the right."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
    return table
