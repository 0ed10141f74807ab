"""Blocks, tables and images of a Markdown page, with the line each begins at. Runs nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

COMMAND = re.compile(r"pipelines/\w+\.yaml|benchmarks/\w+\.py|\bxpipe [a-z]+\b|\bmake [a-z]+\b")
FIGURE = re.compile(r"\d\.\d|\d %|\d%|\d s\b|\d{1,3}(,\d{3})+")
IMAGE = re.compile(r"!\[[^]]*\]\((?P<plain>[^)\s]+)\)|^```\{(?:image|figure)\}\s+(?P<directive>\S+)")


@dataclass(frozen=True)
class Block:
    """A block of code; `kind` is the first word after its fence, `words` the others; "indented": without a fence."""

    page: str
    line: int
    kind: str
    lines: tuple[str, ...]
    words: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    @property
    def file_name(self) -> str | None:
        """The file that the block is the content of: its first line is a comment with nothing but a path."""
        named = re.fullmatch(r"# ([\w./-]+\.(?:py|yaml))", self.lines[0]) if self.lines else None
        return named[1] if named else None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(path: Path) -> list[Block]:
    """Every fenced or indented block of a page, in order."""
    found: list[Block] = []
    lines = path.read_text(encoding="utf-8").splitlines()
    number, listing = 0, False
    while number < len(lines):
        line, start = lines[number], number + 1
        if fence := re.match(r"\s*(```+|~~~+)\s*(.*)", line):
            body = []
            number += 1
            while number < len(lines) and not lines[number].strip().startswith(fence[1]):
                body.append(lines[number])
                number += 1
            kind, *words = fence[2].split() or ["without a kind"]
            found.append(Block(path.name, start, kind, tuple(body), tuple(words)))
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


def apply_diff(block: Block, top: Path) -> tuple[Path, str]:
    """(file, its text after the change) of a block of kind diff; its first line is `--- path`.

    Lines that stay or go must be in the file, in order; new lines go after the line before them.
    """
    path = top / block.lines[0].removeprefix("--- ")
    lines = path.read_text(encoding="utf-8").splitlines()
    place = 0
    for change in block.lines[1:]:
        mark, text = change[:1], change[1:]
        if mark == "+":
            lines.insert(place, text)
            place += 1
            continue
        assert text in lines[place:], f"{block}: {path} has no line {text!r} from line {place + 1} on"
        place = lines.index(text, place)
        if mark == "-":
            del lines[place]
        else:
            place += 1
    return path, "\n".join(lines) + "\n"


def tables_without_command(path: Path) -> list[int]:
    """Lines of tables with figures that have no command between the heading or table before and the one after them."""
    lines = path.read_text(encoding="utf-8").splitlines()
    missing = []
    for start, end in _tables(lines):
        cells = [cell for row in lines[start:end] for cell in row.strip("|").split("|")[1:]]
        if sum(bool(FIGURE.search(cell)) for cell in cells) >= 3 and not _names_command(lines, start, end):
            missing.append(start + 1)
    return missing


def tables_of(path: Path) -> list[tuple[int, str]]:
    """(line, the text around it as far as the next heading or table) of every table."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(start + 1, _around(lines, start, end)) for start, end in _tables(lines)]


def _tables(lines: list[str]) -> list[tuple[int, int]]:
    """Where tables begin and end."""
    starts = [n for n, line in enumerate(lines) if line.startswith("|") and not lines[n - 1].startswith("|")]
    ends = [n for n, line in enumerate([*lines, ""]) if n and lines[n - 1].startswith("|") and not line.startswith("|")]
    return list(zip(starts, ends, strict=True))


def _names_command(lines: list[str], start: int, end: int) -> bool:
    """Whether a command stands around lines[start:end]."""
    return bool(COMMAND.search(_around(lines, start, end)))


def _around(lines: list[str], start: int, end: int) -> str:
    """The text around lines[start:end], as far as the next heading or table."""
    before = next((n for n in range(start - 1, -1, -1) if lines[n].startswith(("#", "|"))), 0)
    after = next((n for n in range(end, len(lines)) if lines[n].startswith(("#", "|"))), len(lines))
    return "\n".join(lines[before:start] + lines[end:after])


def images_of(path: Path) -> list[tuple[int, Path]]:
    """(line, file) of every image of a page."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [(n, match) for n, line in enumerate(lines) for match in IMAGE.finditer(line)]
    return [(n + 1, path.parent / (match["plain"] or match["directive"])) for n, match in found]


def images_without_command(path: Path) -> list[int]:
    """Lines of images with figures that have no command near them, as tables must have."""
    lines = path.read_text(encoding="utf-8").splitlines()
    with_figures = [n for n, image in images_of(path) if _has_figures(image)]
    return [n for n in with_figures if not _names_command(lines, n - 1, n)]


def _has_figures(image: Path) -> bool:
    """Whether an image shows figures. A photograph of a screen, whose words nobody can read here, may always."""
    return image.suffix != ".svg" or len(list(FIGURE.finditer(_words_of(image)))) >= 3


def _words_of(image: Path) -> str:
    """The text that an SVG shows."""
    return " ".join(re.findall(r">([^<>]+)</text>", image.read_text(encoding="utf-8")))
