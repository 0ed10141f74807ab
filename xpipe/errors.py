"""Errors that teach: what happened, where, why, and what to try; one exit code per kind; text that is safe to print.

Holds no colours: `cli` prints `str(error)` and exits with `error.exit_code`.
"""

from __future__ import annotations

import unicodedata

LONGEST_LINE = 5000  # characters; a path may have 4,096
INTERRUPTED = 130  # exit code of a run stopped by Ctrl-C or SIGTERM


class XpipeError(Exception):
    """A mistake the user can act on. `str()` gives all four parts, one a line, empty ones left out, safe to print.

    Parts may quote files and other programs. Further lines of a quote are set in, so that none passes for a part.
    """

    exit_code = 70

    def __init__(self, what: str, *, where: object = "", why: str = "", fix: str = ""):
        super().__init__(what)
        self.what, self.where, self.why, self.fix = what, str(where), why, fix  # `where` may be a Path

    def __str__(self) -> str:
        parts = {"where": printable(self.where, LONGEST_LINE)}
        for name, text in (("why", self.why), ("try", self.fix)):
            parts[name] = printable_lines(text.rstrip(), LONGEST_LINE).replace("\n", "\n    ")
        lines = [f"  {name}: {text}" for name, text in parts.items() if text]
        return "\n".join([printable_lines(self.what, LONGEST_LINE), *lines])

    def __reduce__(self):  # keeps the parts when a worker process raises it
        return _rebuild, (type(self), self.what, self.where, self.why, self.fix)


def _rebuild(kind: type[XpipeError], what: str, where: str, why: str, fix: str) -> XpipeError:
    return kind(what, where=where, why=why, fix=fix)


class ConfigError(XpipeError):
    """The pipeline file or the command line is wrong."""

    exit_code = 2


class DataError(XpipeError):
    """An input file or matrix is wrong."""

    exit_code = 3


class StageError(XpipeError):
    """A stage failed although its inputs looked right."""

    exit_code = 4


class ResourceError(XpipeError):
    """Memory, disk, workers or locks ran out."""

    exit_code = 5


class BackendError(XpipeError):
    """The GPU asked for cannot be used."""

    exit_code = 6


# Control characters (escape codes among them), invisible ones (those that reverse the writing among them), halves of
# characters, ends of lines. Joiners alone are harmless, and some scripts cannot be written without them.
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
_JOINERS = "\u200c\u200d"
_CUT = "..."


def printable(text: str, longest: int | None = None) -> str:
    r"""The text in one line of visible characters, e.g. `\x1b` for an escape; cut to `longest` characters and marked.

    A text that is printable already comes back as it is, so a second call changes nothing.
    """
    if longest is None or len(text) <= longest:
        shown = text if text.isprintable() else "".join(map(_visible, text))
        if longest is None or len(shown) <= longest:
            return shown
    pieces, room = [], longest - len(_CUT)
    for character in text:
        piece = _visible(character)
        room -= len(piece)
        if room < 0:
            break
        pieces.append(piece)
    return "".join([*pieces, _CUT])[:longest]


def printable_lines(text: str, longest: int | None = None) -> str:
    """The same for a text of several lines, which stay apart; `longest` holds for each of them."""
    return "\n".join(printable(line, longest) for line in text.split("\n"))


def _visible(character: str) -> str:
    if character.isprintable() or character in _JOINERS or unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
