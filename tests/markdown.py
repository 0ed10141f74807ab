"""Blocks and tables of a Markdown page, with the line each begins at. Runs nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

COMMAND = re.compile(r"pipelines/\w+\.yaml|benchmarks/\w+\.py|\bxpipe [a-z]+\b|\bmake [a-z]+\b")
FIGURE = re.compile(r"\d\.\d|\d %|\d%|\d s\b|\d{1,3}(,\d{3})+")


@dataclass(frozen=True)
class Block:
    """A block of code; `kind` is the word after its fence, "indented" for one without a fence."""

    page: str
    line: int
    kind: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(path: Path) -> list[Block]:
    """Every fenced or indented block of a page, in order."""
    found: list[Block] = []
    lines = path.read_text(encoding="utf-8").splitlines()
    number, listing = 0, False
    while number < len(lines):
        line, start = lines[number], number + 1
        if fence := re.match(r"\s*(```+|~~~+)\s*(\S*)", line):
            body = []
            number += 1
            while number < len(lines) and not lines[number].strip().startswith(fence[1]):
                body.append(lines[number])
                number += 1
            found.append(Block(path.name, start, fence[2] or "without a kind", tuple(body)))
        elif (
            line.startswith("    ") and line.strip() and not listing and (number == 0 or not lines[number - 1].strip())
        ):
            body = []
            while number < len(lines) and (lines[number].startswith("    ") or not lines[number].strip()):
                body.append(lines[number][4:])
                number += 1
            found.append(Block(path.name, start, "indented", tuple(body)))
            continue
        elif line.strip():
            listing = bool(re.match(r"\s*([-*]|\d+\.)\s", line)) or (listing and line.startswith(" "))
        number += 1
    return found


def tables_without_command(path: Path) -> list[int]:
    """Lines of tables with figures that have no command between the heading or table before and the one after them."""
    lines = path.read_text(encoding="utf-8").splitlines()
    starts = [n for n, line in enumerate(lines) if line.startswith("|") and not lines[n - 1].startswith("|")]
    missing = []
    for start in starts:
        end = start
        while end < len(lines) and lines[end].startswith("|"):
            end += 1
        cells = [cell for row in lines[start:end] for cell in row.strip("|").split("|")[1:]]
        if sum(bool(FIGURE.search(cell)) for cell in cells) < 3:
            continue
        before = next(n for n in range(start - 1, -1, -1) if lines[n].startswith(("#", "|")) or n == 0)
        after = next((n for n in range(end, len(lines)) if lines[n].startswith(("#", "|"))), len(lines))
        if not COMMAND.search("\n".join(lines[before:start] + lines[end:after])):
            missing.append(start + 1)
    return missing
