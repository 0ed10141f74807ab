"""Errors that tell what happened, where, why, and what to try. One exit code per kind. Their text is safe to print.

Prints nothing: `cli` prints `str(error)` and exits with `error.exit_code`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

LONGEST_LINE = 5000  # characters; a path may have 4,096
INTERRUPTED = 130  # exit code of a run stopped by Ctrl-C or SIGTERM


class XpipeError(Exception):
    """A problem that the user can act on. `str()` gives its parts, one per line, without empty ones, safe to print.

    what: what happened. where: the file and line, the stage, or the setting. why: the reason. fix: what to try. Parts
    may quote files and other programs. Further lines of a quote are indented, so that none looks like another part.
    """

    exit_code = 70

    def __init__(self, what: str, *, where: object = "", why: str = "", fix: str = ""):
        """Make an error from its parts."""
        super().__init__(what)
        self.what, self.where, self.why, self.fix = what, str(where), why, fix  # `where` may be a Path

    def __str__(self) -> str:
        """All parts that are not empty, one per line, safe to print."""
        parts = {"where": printable(self.where, LONGEST_LINE)}
        for name, text in (("why", self.why), ("try", self.fix)):
            parts[name] = printable_lines(text.rstrip(), LONGEST_LINE).replace("\n", "\n    ")
        lines = [f"  {name}: {text}" for name, text in parts.items() if text]
        return "\n".join([printable_lines(self.what, LONGEST_LINE), *lines])

    def __reduce__(self) -> tuple[Callable[..., XpipeError], tuple[object, ...]]:
        """Keep all parts when the error travels from a worker process."""
        return _rebuild, (type(self), self.what, self.where, self.why, self.fix)


def _rebuild(kind: type[XpipeError], what: str, where: str, why: str, fix: str) -> XpipeError:
    """Make an error again from its pickled parts."""
    return kind(what, where=where, why=why, fix=fix)


class ConfigError(XpipeError):
    """The pipeline file or the command line is wrong."""

    exit_code = 2


class DataError(XpipeError):
    """An input file or matrix is wrong."""

    exit_code = 3


class ParameterError(ConfigError, ValueError):
    """A parameter of an estimator is wrong. A ValueError too, as users of scikit-learn expect."""


class InputError(DataError, ValueError):
    """Data given to an estimator is wrong. A ValueError too, as users of scikit-learn expect."""


class StageError(XpipeError):
    """A stage failed although its inputs looked right."""

    exit_code = 4


class ResourceError(XpipeError):
    """Memory, disk, workers or locks ran out."""

    exit_code = 5


class BackendError(XpipeError):
    """The GPU asked for cannot be used."""

    exit_code = 6


# Categories of characters that are not printed as they are: control characters (such as escape codes), invisible
# ones (such as those that reverse the direction of writing), halves of surrogate pairs, and ends of lines. Joiners are
# printed: they are harmless, and some scripts need them.
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
_JOINERS = "\u200c\u200d"
_CUT = "..."


def printable(text: str, longest: int | None = None) -> str:
    r"""The text as one line of visible characters, for example `\x1b` for an escape.

    longest: a longer text is cut, and ends in "...". A text that is printable already is returned as it is, so a second
    call changes nothing.
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
    """`printable` for each line of a text. The ends of lines stay."""
    return "\n".join(printable(line, longest) for line in text.split("\n"))


def _visible(character: str) -> str:
    """A character as it is printed: itself, or its escape sequence."""
    if character.isprintable() or character in _JOINERS or unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
