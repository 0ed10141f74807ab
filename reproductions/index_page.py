"""The tables of `docs/reproductions/index.md`: one row per reproduction, with a link to its page. Runs nothing."""

from __future__ import annotations

import re
from pathlib import Path

from reproductions.configuration import load, names

INDEX = "index.md"
HEADER = "| name | what | data | seconds, about |\n|---|---|---|---|\n"
PAPERS, OURS = "Figures of papers", "Figures of README and docs"
OWN = "This project"  # how sources of our own begin


def index_text(pages: Path) -> str:
    """The text of index.md with the tables as they are now."""
    text = (pages / INDEX).read_text(encoding="utf-8")
    for heading, own in ((PAPERS, False), (OURS, True)):
        table = HEADER + "".join(row_of(name, pages) for name in names() if load(name).source.startswith(OWN) == own)
        text, found = re.subn(rf"(## {heading}\n\n)(?:\|.*\n)*", lambda match, table=table: match[1] + table, text)
        if not found:
            raise ValueError(f"{pages / INDEX} has no heading {heading!r}")
    return text


def row_of(name: str, pages: Path) -> str:
    """One row of the table."""
    configuration = load(name)
    shown = f"[`{name}`]({name}.md)" if (pages / f"{name}.md").exists() else f"`{name}`"
    return f"| {shown} | {configuration.title} | {configuration.data or 'none'} | {configuration.seconds} |\n"


def write_index(pages: Path) -> None:
    """Write index.md again, where the folder has one."""
    if (pages / INDEX).exists():
        (pages / INDEX).write_text(index_text(pages), encoding="utf-8")
