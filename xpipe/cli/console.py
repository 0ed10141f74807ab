"""A console that makes every text safe to print, and tables in one style. Holds no particular table.

Texts may come from anywhere (names of labels, files, runs), so they may hold control characters and markup.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from xpipe.errors import printable_lines

SYNTHETIC = "SYNTHETIC: a generated stand-in with the published shape, not the real dataset"
USUAL_RANKS = (1, 3, 5)


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


def new_table(*columns: str, numbers: tuple[str, ...] = (), title: str | None = None) -> Table:
    """An empty table with these columns. numbers: the columns that are aligned to the right."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
    return table
