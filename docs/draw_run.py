"""Draws images/run.svg, the picture on the front page: the tables of `make run` as results.md has them.

    python docs/draw_run.py

Runs nothing: after a new `make run`, put its tables into results.md, then draw them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
TITLES = ("label sets of test", "eurlex_methods")


def shown_lines() -> list[str]:
    """The console block of `make run`."""
    text = (HERE / "results.md").read_text(encoding="utf-8")
    found = re.search(r"```console\n(\$ make run\n.*?)```", text, re.DOTALL)
    assert found is not None, "results.md has no block of `make run`"
    return found[1].splitlines()


def styled(line: str) -> Text:
    """A line in the colours of a terminal. Cells and borders differ in style, so each has a place of its own."""
    style = "bold" if line.startswith(("$", "┃")) else "italic" if line.startswith(TITLES) else ""
    text = Text(line, style="bold yellow" if line.startswith("SYNTHETIC") else style)
    text.highlight_regex(r"[\u2500-\u257f]+", "not bold bright_black")
    return text


def main() -> None:
    lines = shown_lines()
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=max(map(len, lines)), file=nowhere, force_terminal=True)
        for line in lines:
            console.print(styled(line), highlight=False, soft_wrap=True)
        drawn = console.export_svg(title="make run", unique_id="run")
    drawn = re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", "", drawn, flags=re.DOTALL)  # fonts of the reader's machine
    (HERE / "images" / "run.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
