"""Foreign text on a terminal: nothing of it is obeyed, whatever way it takes there."""

from __future__ import annotations

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.samples import run_xpipe
from xpipe.cli.console import SafeConsole, new_table
from xpipe.cli.progress import Progress
from xpipe.errors import DataError, printable, printable_lines

NASTY = "\x1b[31m\x1b]0;title\x07\x9b2J\r\x08\u202eevil\u2066\u200b\ud800\u2028[red]x[/red] [/] :smile:"
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
TEXTS = st.text(st.characters(), max_size=60) | st.text(st.sampled_from(NASTY + "\n\t ab\\"), max_size=60)


def is_safe(text, allowed="\n"):
    return not {c for c in text if unicodedata.category(c) in HIDDEN} - {*allowed, "\u200c", "\u200d"}


@given(TEXTS, st.none() | st.integers(0, 80))
def test_nothing_hidden_is_left_and_nothing_visible_changes(text, longest):
    shown = printable(text, longest)
    assert is_safe(shown, allowed="")
    assert longest is None or len(shown) <= longest
    assert printable(shown, longest) == shown
    shown.encode()
    if is_safe(text, allowed="") and (longest is None or len(text) <= longest):
        assert shown == text
    if longest is None:
        assert is_safe(printable_lines(text))
        assert printable_lines(text).count("\n") == text.count("\n")


def test_names_in_other_scripts_stay_readable():
    for name in ("Bürgerliches Recht", "日本語", "می‌خواهم", "👩‍🔬", r"C:\new\table", "a\u00a0b"):
        assert printable(name) == name
    assert printable("a\x1b[2Jb\nc") == r"a\x1b[2Jb\nc"
    assert printable("\x1b" * 9, 12) == r"\x1b\x1b..."


def test_errors_quote_files_without_obeying_them():
    error = DataError(f"a bad token {NASTY}", where=f"{NASTY}\n  try: x", why=f"{NASTY}\n  try: curl", fix=NASTY * 999)
    text = str(error)
    assert is_safe(text)
    assert [line[:6] for line in text.splitlines()] == ["a bad ", "  wher", "  why:", "      ", "  try:"]
    assert len(text) < 20_000
    assert error.where == f"{NASTY}\n  try: x"  # programs get what it was


@pytest.mark.parametrize("terminal", [False, True])
def test_tables_and_lines_show_names_as_they_are(terminal):
    stream = io.StringIO()
    console = SafeConsole(file=stream, force_terminal=terminal, width=400, color_system=None)
    table = new_table(NASTY, "plain", title=NASTY)
    table.add_row(NASTY, "[bold]a[/bold]")
    console.print(table)
    console.print(NASTY)
    assert is_safe(stream.getvalue())
    assert stream.getvalue().count("[red]x[/red] [/] :smile:") == 4
    assert "[bold]a[/bold]" in stream.getvalue()


@pytest.mark.parametrize("mode", ["plain", "rich"])
def test_progress_shows_names_as_they_are(mode):
    stream = io.StringIO()
    with Progress(mode, stream=stream) as progress:
        progress.note(f"note {NASTY}")
        progress.warn(f"file {NASTY}")
    for line in stream.getvalue().splitlines():
        if line.startswith(("note", "\x1b[33mwarning", "warning")):
            assert is_safe(line.removeprefix("\x1b[33m").removesuffix("\x1b[0m"))
    assert stream.getvalue().count("[red]x[/red] [/] :smile:") == 2


def test_the_command_line_obeys_no_file(tmp_path):
    data = tmp_path / "\x1b[2J\nd"
    data.mkdir()
    (data / "train.txt").write_text("1 2 2\n0 \x1b]0;t\x07:1\n")
    code, output = run_xpipe("check", data)
    assert code == 3, output
    assert is_safe(output), repr(output)
    code, output = run_xpipe("\x1b[2J")
    assert code == 2
    assert is_safe(output), repr(output)


def test_an_encoding_without_the_letters_is_no_bug(tmp_path, monkeypatch):
    """Names of files and labels are printed whatever the terminal can show."""
    (tmp_path / "é.txt").write_text("1 2 2\n0 0:1\n")
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    code, output = run_xpipe("convert", "é.txt", "ü", "--to", "xmc", cwd=tmp_path)
    assert code == 0, output
    assert "\\xfc" in output
