"""Shows the progress of a run on stderr: bars on a terminal, elsewhere a line now and then, or nothing on request.

Knows nothing of stages or clusters, and imports rich only where it draws bars.

    with Progress() as progress:
        bar = progress.stage("read", unit="rows")
        bar.begin("planning")
        bar.begin("reading", total=120)
        bar.advance(40)
        bar.done("120 rows, 3 rejected")
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Literal, TextIO

from xpipe.errors import printable_lines
from xpipe.ground.quantities import format_seconds

Mode = Literal["auto", "quiet", "plain", "rich"]
EVERY_SECONDS = 10.0  # between two lines of one running stage


class Bar:
    """One running stage. `Progress.stage` makes it. Any thread may advance it."""

    def __init__(self, progress: Progress, name: str, total: int | None, unit: str):
        """Start at 0 of `total` units. None: the total is not known yet."""
        self.progress, self.name, self.unit = progress, name, unit
        self.doing, self.counts = "", unit  # what the step does, and what it counts
        self.total, self.count = total, 0
        self.steps = 0
        self.started = self.begun = self.last_line = progress.clock()
        self.ended = False
        self.task: Any = None  # its id in rich

    def begin(self, doing: str, total: int | None = None, unit: str | None = None) -> None:
        """Begin a step: what the stage does now. total: None where nothing is counted. unit: of this step."""
        with self.progress.lock:
            self.steps += 1
            self.doing, self.total, self.count, self.counts = doing, total or None, 0, unit or self.unit
            self.begun = self.progress.clock()
            self.progress.show(self, anew=True)

    def expect(self, more: int) -> None:
        """Add units to the total. The first call makes an unknown total known."""
        with self.progress.lock:
            self.total = (self.total or 0) + more
            self.progress.show(self)

    def advance(self, n: int = 1) -> None:
        """Add n units to those that are done."""
        with self.progress.lock:
            self.count += n
            self.progress.show(self)

    def done(self, text: str = "") -> None:
        """End the stage, with an optional text. A second call does nothing."""
        self.progress.end(self, text)

    def figures(self) -> str:
        """What the stage does, count, share, rate and time left, as far as they are known; the time of the stage."""
        seconds = self.progress.clock() - self.begun
        parts = [self.doing] if self.doing else []
        if self.count or self.total:
            share = f"/{self.total:,} {self.counts} ({100 * self.count // self.total} %)" if self.total else ""
            parts.append(f"{self.count:,}{share}" if share else f"{self.count:,} {self.counts}")
        elif not self.doing:
            parts.append("at work")
        if self.count and seconds > 0:
            rate = self.count / seconds
            parts.append(f"{rate:,.0f} {self.counts}/s" if rate >= 10 else f"{rate:.2g} {self.counts}/s")
            if self.total is not None and self.total > self.count:
                parts.append(f"{format_seconds((self.total - self.count) / rate)} left")
        return ", ".join([*parts, self.elapsed()])

    def outcome(self) -> str:
        """What was done, and the time of the stage. Steps go over the same rows again: their sum would say nothing."""
        counted = f"{self.count:,} {self.unit}, " if self.count and not self.steps else ""
        return f"{counted}{self.elapsed()}"

    def elapsed(self) -> str:
        """The time since the stage started."""
        return format_seconds(self.progress.clock() - self.started)


class Progress:
    """Shows stages, notes and warnings.

    mode: "rich" draws bars, "plain" writes lines, "quiet" writes warnings only, and "auto" draws bars on a terminal and
    writes lines elsewhere. stream: by default stderr. clock: for tests.
    """

    def __init__(
        self, mode: Mode = "auto", *, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ):
        """Show nothing yet. Raises ValueError for an unknown mode."""
        if mode not in ("auto", "quiet", "plain", "rich"):
            raise ValueError(f"mode must be auto, quiet, plain or rich, got {mode!r}")
        self.stream = stream if stream is not None else sys.stderr
        if mode == "auto":
            mode = "rich" if self.stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb") else "plain"
        self.mode, self.clock = mode, clock
        self.lock = threading.RLock()
        self.bars: list[Bar] = []
        self._rich: Any = None
        self._stop = threading.Event()
        self._heartbeat: threading.Thread | None = None

    def __enter__(self) -> Progress:
        """Start to show the progress."""
        if self.mode == "rich":
            self._rich = _rich_progress(self.stream)
            self._rich.start()
        elif self.mode == "plain":  # lines at regular times show that a stage with long chunks is alive
            self._heartbeat = threading.Thread(target=self._beat, name="xpipe-progress", daemon=True)
            self._heartbeat.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        """End all stages that are still running; after an exception, as not finished."""
        self._stop.set()
        if self._heartbeat is not None:
            self._heartbeat.join()
        for bar in list(self.bars):
            self.end(bar, finished=kind is None)
        if self._rich is not None:
            self._rich.stop()
            self._rich = None

    def stage(self, name: str, total: int | None = None, unit: str = "rows") -> Bar:
        """Start a stage. total: None if it is not known yet, 0 if there is nothing to do. unit: what it counts."""
        bar = Bar(self, name, total, unit)
        with self.lock:
            self.bars.append(bar)
            if self._rich is not None:
                bar.task = self._rich.add_task(name, total=bar.total or None, bar=bar)
            elif self.mode == "plain":
                self._write(f"{name}: started" + (f", {total:,} {unit}" if total else ""))
        return bar

    def show(self, bar: Bar, anew: bool = False) -> None:
        """Update the line of a bar. Without a terminal, a line is written at most every ten seconds.

        anew: whether a step begins, so that its rate counts from here.
        """
        with self.lock:
            if bar.ended:
                return
            if self._rich is not None:
                if anew:  # rich cannot make a known total unknown
                    self._rich.remove_task(bar.task)
                    bar.task = self._rich.add_task(bar.name, total=bar.total, bar=bar)
                self._rich.update(bar.task, completed=bar.count, total=bar.total)
            elif self.mode == "plain" and self.clock() - bar.last_line >= EVERY_SECONDS:
                bar.last_line = self.clock()
                self._write(f"{bar.name}: {bar.figures()}")

    def end(self, bar: Bar, text: str = "", finished: bool = True) -> None:
        """End a stage with a line of its figures and an optional text."""
        with self.lock:
            if bar.ended:
                return
            bar.ended = True
            self.bars.remove(bar)
            if self._rich is not None:
                self._rich.remove_task(bar.task)
            if self.mode != "quiet":
                told = f"done, {bar.outcome()}" if finished else f"not finished, {bar.figures()}"
                self._write(f"{bar.name}: {told}" + (f"; {text}" if text else ""))

    def note(self, text: str) -> None:
        """Write a line, except in quiet mode."""
        if self.mode != "quiet":
            self._write(text)

    def warn(self, text: str) -> None:
        """Write a warning, in every mode."""
        self._write(f"warning: {text}", style="yellow")

    def tick(self) -> None:
        """Update the lines of all running stages."""
        with self.lock:
            for bar in self.bars:
                self.show(bar)

    def _beat(self) -> None:
        """Update the lines at regular times, until the progress ends."""
        while not self._stop.wait(EVERY_SECONDS):
            self.tick()

    def _write(self, text: str, style: str | None = None) -> None:
        """Write text, made safe to print."""
        text = printable_lines(text)
        with self.lock:
            try:
                if self._rich is not None:
                    self._rich.console.print(text, style=style, soft_wrap=True)
                else:
                    self.stream.write(text + "\n")
                    self.stream.flush()
            except (OSError, ValueError):
                pass  # a closed stderr must not stop a run


def _rich_progress(stream: TextIO) -> Any:
    """The bars of rich, with our columns."""
    from rich.progress import BarColumn, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress
    from rich.text import Text

    from xpipe.cli.console import SafeConsole

    class CountColumn(ProgressColumn):
        """What the stage does; count and rate in its unit, where it counts."""

        def render(self, task: Any) -> Text:
            """The text of the column for a bar."""
            bar: Bar = task.fields["bar"]
            total = f"/{bar.total:,}" if bar.total else ""
            rate = f"  {task.speed:,.0f}/s" if task.speed else ""
            counted = f"{bar.count:,}{total} {bar.counts}{rate}" if bar.count or total else ""
            return Text("  ".join(part for part in (bar.doing, counted) if part))

    class StageTime(ProgressColumn):
        """The time since the stage started, over all its steps."""

        def render(self, task: Any) -> Text:
            """The text of the column for a bar."""
            return Text(task.fields["bar"].elapsed(), style="progress.elapsed")

    return RichProgress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        CountColumn(),
        StageTime(),
        TimeRemainingColumn(),
        console=SafeConsole(file=stream, force_terminal=True),
        transient=True,
        redirect_stdout=False,  # results on stdout stay on stdout
    )
