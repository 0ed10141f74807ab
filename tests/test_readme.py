"""README is a front page: short, with one picture of real output. Its blocks run in tests/docs/test_pages.py."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from tests.markdown import blocks_of, images_of

TOP = Path(__file__).parent.parent


def test_readme_is_a_front_page():
    assert len((TOP / "README.md").read_text().splitlines()) <= 150


def test_the_picture_shows_the_tables_of_the_results_page():
    (_, picture), *others = images_of(TOP / "README.md")
    assert not others
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", picture.read_text())
    shown = " ".join(html.unescape(" ".join(texts)).split())
    (block,) = (block for block in blocks_of(TOP / "docs" / "results.md") if block.lines[0] == "$ make run")
    rows = [line for line in block.lines[1:] if line.startswith(("┃", "│"))]
    assert len(rows) == 8
    for row in rows:
        assert " ".join(row.split()) in shown
    assert "SYNTHETIC" in shown


def test_rooms_and_their_files_are_there_after_one_import():
    import xpipe

    for room in ("argmaxability", "eagle", "formats", "heads", "metrics", "trees"):
        for path in sorted((TOP / "xpipe" / room).glob("[a-z]*.py")):
            assert getattr(getattr(xpipe, room), path.stem) is not None
    with pytest.raises(AttributeError, match="no attribute 'parket'"):
        _ = xpipe.formats.parket
