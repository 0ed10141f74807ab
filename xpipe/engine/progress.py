"""What the engine expects of whoever shows a run to people. `cli.progress.Progress` is one.

Holds declarations only and prints nothing.
"""

from __future__ import annotations

from typing import Protocol


class Says(Protocol):
    """Prints single lines: notes, which a quiet run leaves out, and warnings."""

    def note(self, text: str, /) -> None:
        """Print a line that is worth reading, but not important."""

    def warn(self, text: str, /) -> None:
        """Print a line that the user must see."""


class Bar(Protocol):
    """Shows the progress of one stage, which has one step after the other."""

    def begin(self, doing: str, /, total: int | None = None, unit: str | None = None) -> None:
        """Begin a step: what the stage does now, such as "choosing the method", and how much of it there is.

        total: None where nothing is counted. unit: what is counted; by default that of the stage.
        """

    def expect(self, count: int, /) -> None:
        """Add `count` units to the total."""

    def advance(self, count: int, /) -> None:
        """Add `count` units to those that are done."""

    def done(self, text: str = "", /) -> None:
        """Mark the stage as finished. text: what else to say of it."""


class Progress(Says, Protocol):
    """Shows the progress of a run: one bar per stage, notes and warnings."""

    def stage(self, name: str, *, unit: str) -> Bar:
        """Start the bar of a stage. `unit`: what it counts, such as "rows"."""
        ...


class Silent:
    """Says nothing."""

    def note(self, text: str) -> None:
        """Print nothing."""

    def warn(self, text: str) -> None:
        """Print nothing."""
