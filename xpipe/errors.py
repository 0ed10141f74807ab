"""Errors that teach: what happened, where, why, and what to try; one exit code a kind.

Holds no colours: `cli` prints `str(error)` and exits with `error.exit_code`.
"""

from __future__ import annotations

from xpipe.ground.printable import printable, printable_lines

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
