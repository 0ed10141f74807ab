"""A console that makes foreign text safe to print, and tables in one style.

Whatever text is shown may be foreign (names of labels, files, runs): the console makes all of it safe to print.
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
    """Takes text as it is: brackets are no markup, `:x:` is no picture, and control characters are shown, not sent."""

    def __init__(self, **options: Any):
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """rich makes a Text of every string here: lines, titles, heads and cells of tables, also to measure them."""
        return super().render_str(printable_lines(text), **options)


def new_console() -> Console:
    console = SafeConsole()
    if not console.is_terminal:
        console.width = max(console.width, 150)  # a log has no edge to wrap at
    return console


def new_table(*columns: str, numbers: tuple[str, ...] = (), title: str | None = None) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
    return table
