"""Progress in every mode, with a clock that stands still unless told, and a pseudo-terminal for the bars."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import threading

import pytest

from tests.waiting import LIMIT
from xpipe.cli import progress as progress_module
from xpipe.cli.progress import Progress


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def stream():
    return io.StringIO()


def test_plain_one_line_at_most_every_ten_seconds(stream, clock):
    with Progress("plain", stream=stream, clock=clock) as progress:
        bar = progress.stage("read", total=120, unit="rows")
        for _ in range(30):
            clock.now += 1
            bar.advance(2)
        bar.advance(60)
        bar.done("3 rejected")
    assert stream.getvalue().splitlines() == [
        "read: started, 120 rows",
        "read: 20/120 rows (16 %), 2 rows/s, 50.0 s left, 10.0 s",
        "read: 40/120 rows (33 %), 2 rows/s, 40.0 s left, 20.0 s",
        "read: 60/120 rows (50 %), 2 rows/s, 30.0 s left, 30.0 s",
        "read: done, 120 rows, 30.0 s; 3 rejected",
    ]


def test_plain_stages_have_their_own_ten_seconds(stream, clock):
    with Progress("plain", stream=stream, clock=clock) as progress:
        first = progress.stage("first", total=10)
        clock.now += 6
        second = progress.stage("second", total=10)
        clock.now += 6
        first.advance()
        second.advance()
        first.advance()
        first.done()
        second.done()
    running = [line for line in stream.getvalue().splitlines() if "left" in line]
    assert [line.split(":")[0] for line in running] == ["first"]


def test_plain_heartbeat_shows_a_stage_that_does_not_advance(stream, clock, monkeypatch):
    monkeypatch.setattr(progress_module, "EVERY_SECONDS", 0.01)
    shown = threading.Event()
    with Progress("plain", stream=stream, clock=clock) as progress:
        write = stream.write
        monkeypatch.setattr(stream, "write", lambda text: (write(text), "0/9" in text and shown.set()))
        progress.stage("read", total=9)
        clock.now += 30
        assert shown.wait(LIMIT)
    assert "read: 0/9 rows (0 %), 30.0 s" in stream.getvalue()


@pytest.mark.parametrize(("total", "line"), [(0, "read: done, 0.0 s"), (None, "read: done, 0.0 s")])
@pytest.mark.parametrize("mode", ["plain", "rich"])
def test_nothing_to_do_or_unknown(stream, clock, total, line, mode):
    with Progress(mode, stream=stream, clock=clock) as progress:
        progress.stage("read", total=total).done()
    assert line in stream.getvalue()


def test_unknown_total_becomes_known_and_grows(stream, clock):
    with Progress("plain", stream=stream, clock=clock) as progress:
        bar = progress.stage("read")
        bar.expect(10)
        bar.advance(10)
        bar.expect(30)
        clock.now += 20
        bar.advance(10)
        bar.done()
    assert stream.getvalue().splitlines() == [
        "read: started",
        "read: 20/40 rows (50 %), 1 rows/s, 20.0 s left, 20.0 s",
        "read: done, 20 rows, 20.0 s",
    ]


def test_steps_say_what_they_do_and_count_from_their_beginning(stream, clock):
    with Progress("plain", stream=stream, clock=clock) as progress:
        bar = progress.stage("assign", unit="labels")
        bar.begin("choosing the method", total=0)
        clock.now += 20
        progress.tick()
        bar.begin("finding owners", total=40)
        clock.now += 10
        bar.advance(10)
        bar.begin("writing owners", total=7, unit="rows")
        clock.now += 10
        progress.tick()
        bar.done("4.0 s of it to compile kernels")
    assert stream.getvalue().splitlines() == [
        "assign: started",
        "assign: choosing the method, 20.0 s",
        "assign: finding owners, 10/40 labels (25 %), 1 labels/s, 30.0 s left, 30.0 s",
        "assign: writing owners, 0/7 rows (0 %), 40.0 s",
        "assign: done, 40.0 s; 4.0 s of it to compile kernels",
    ]


def test_quiet_prints_warnings_only(stream, clock):
    with Progress("quiet", stream=stream, clock=clock) as progress:
        bar = progress.stage("read", total=2)
        clock.now += 100
        bar.advance(2)
        bar.done("text")
        progress.note("a note")
        progress.warn("a [warning]")
    assert stream.getvalue() == "warning: a [warning]\n"


def test_error_leaves_stages_not_finished(stream, clock):
    def fail():
        with Progress("plain", stream=stream, clock=clock) as progress:
            progress.stage("read", total=4).advance(1)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert stream.getvalue().splitlines()[-1] == "read: not finished, 1/4 rows (25 %), 0.0 s"


def test_done_twice_and_late_advances_say_nothing_more(stream, clock):
    with Progress("plain", stream=stream, clock=clock) as progress:
        bar = progress.stage("read", total=4)
        bar.done()
        bar.done("again")
        clock.now += 60
        bar.advance(1)
    assert stream.getvalue().count("\n") == 2


def test_threads_lose_no_count(stream, clock):
    with Progress("plain", stream=stream, clock=clock) as progress:
        bar = progress.stage("read", total=8000)
        threads = [threading.Thread(target=lambda: [bar.advance() for _ in range(1000)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        bar.done()
    assert "done, 8,000 rows" in stream.getvalue()


def test_closed_stream_does_not_stop_the_run(clock):
    stream = io.StringIO()
    with Progress("plain", stream=stream, clock=clock) as progress:
        stream.close()
        progress.warn("nobody hears")
        progress.stage("read").done()


def test_unknown_mode():
    with pytest.raises(ValueError, match="mode must be auto, quiet, plain or rich, got 'loud'"):
        Progress("loud")


def test_auto_is_plain_without_a_terminal(stream, capsys):
    assert Progress(stream=stream).mode == "plain"
    with Progress() as progress:
        progress.note("hello")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "hello\n")


# ---------------------------------------------------------------- terminals


def on_terminal(use) -> str:
    """What `use(stream)` writes to a terminal."""
    master, slave = pty.openpty()
    parts: list[bytes] = []

    def drain() -> None:
        try:
            while part := os.read(master, 65536):
                parts.append(part)
        except OSError:  # the other side has closed
            pass

    reader = threading.Thread(target=drain)
    reader.start()
    with os.fdopen(slave, "w") as terminal:
        use(terminal)
    reader.join()
    os.close(master)
    return b"".join(parts).decode()


def test_auto_draws_bars_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")

    def use(terminal):
        with Progress(stream=terminal) as progress:
            assert progress.mode == "rich"
            bar = progress.stage("read", total=120, unit="rows")
            bar.advance(60)
            progress._rich.refresh()
            progress.note("a [bold]note[/bold]")
            progress.warn("mind [this]")
            unknown = progress.stage("group", unit="groups")
            progress._rich.refresh()
            unknown.expect(5)
            progress.stage("empty", total=0)
            progress._rich.refresh()
            print("a result on stdout")
            bar.advance(60)
            bar.done("3 rejected")

    seen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", on_terminal(use))
    assert "60/120 rows" in seen
    assert "0.0 s" in seen  # elapsed
    assert "a [bold]note[/bold]" in seen
    assert "warning: mind [this]" in seen
    assert "0/5 groups" in seen
    assert "read: done, 120 rows" in seen
    assert "; 3 rejected" in seen
    assert "group: done" in seen
    assert capsys.readouterr().out == "a result on stdout\n"


def test_auto_is_plain_on_a_dumb_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    modes = []
    on_terminal(lambda terminal: modes.append(Progress(stream=terminal).mode))
    assert modes == ["plain"]


def test_rich_is_imported_only_for_bars():
    code = """
import sys
from xpipe.cli.progress import Progress
with Progress() as progress:
    progress.stage("read", total=1).advance()
print("rich" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
