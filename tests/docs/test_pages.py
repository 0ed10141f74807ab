"""README, CONTRIBUTING and docs: every block of code runs as it is written; every figure names what makes it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.docs.reader import TOP, Reader, alike, plain, prepare_folder
from tests.markdown import Block, blocks_of, images_of, images_without_command, tables_without_command

TOP_PAGES = [TOP / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "data/README.md")]
PAGES = [*TOP_PAGES, *sorted((TOP / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if "_build" not in page.parts]
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder in which the reader stands."""
    pytest.importorskip("torch")
    top, before = tmp_path_factory.mktemp("reader"), Path.cwd()
    os.chdir(top)
    try:
        prepare_folder(top)
        yield top
    finally:
        os.chdir(before)


@every_page
def test_every_block_runs(page, folder, monkeypatch):
    monkeypatch.setenv("XPIPE_CLUSTERS", "")  # a page may have clusters of its own
    blocks = blocks_of(page)
    if blocks:
        reader = Reader(page, folder)
        for block in blocks:
            reader.follow(block)


@every_page
def test_every_figure_names_its_command(page):
    assert tables_without_command(page) == []
    assert images_without_command(page) == []


@every_page
def test_links_and_images_lead_to_files(page):
    links = re.findall(r"\]\((?!https?://|#)([^)\s#]+)", page.read_text())
    targets = [page.parent / link for link in links] + [image for _, image in images_of(page)]
    assert [str(target) for target in targets if not target.exists()] == []


@every_page
def test_paths_in_the_text_are_there(page):
    """A page that names a file of the project names one that exists."""
    if page.name == "CHANGELOG.md":  # tells of files of earlier releases
        return
    folders = "xpipe|tests|pipelines|benchmarks|docs|reproductions"
    named = re.findall(rf"`((?:{folders})/[\w./-]+\.(?:py|yaml|md|svg))`", page.read_text())
    own = {block.file_name for block in blocks_of(page)}  # files that the page tells to write
    assert [path for path in named if path not in own and not (TOP / path).exists()] == []


def test_a_page_that_says_nothing_of_its_blocks_fails(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Title\n\nText\n\n    indented\n\n```\nno kind\n```\n\n- a list\n\n    with more\n\n"
        "| a | b |\n|---|---|\n| x | 1.5 |\n| y | 2.5 |\n| z | 3.5 |\n"
    )
    assert [block.kind for block in blocks_of(page)] == ["indented", "without a kind"]
    for block in blocks_of(page):
        with pytest.raises(AssertionError, match="write ```python"):
            Reader(page, tmp_path, {}).follow(block)
    assert tables_without_command(page) == [15]
    page.write_text(page.read_text() + "\n(`python benchmarks/read.py`)\n")
    assert tables_without_command(page) == []


def test_an_image_with_figures_needs_a_command(tmp_path):
    (tmp_path / "a.svg").write_text("<svg><text>1.5</text><text>2.5</text><text>3,500</text></svg>")
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n![a](a.svg)\n\n```{image} a.svg\n```\n")
    assert images_without_command(page) == [3, 5]
    page.write_text(page.read_text() + "\nMade by `make run`.\n")
    assert images_without_command(page) == []


def test_blocks_that_are_wrong_fail(tmp_path):
    reader = Reader(tmp_path / "page.md", tmp_path, {})

    def block(kind: str, *lines: str) -> Block:
        return Block("page.md", 1, kind, lines)

    with pytest.raises(ZeroDivisionError):
        reader.follow(block("python", "1 / 0"))
    with pytest.raises(Exception, match="grup"):
        reader.follow(block("yaml", "grup: {}"))
    with pytest.raises(AssertionError, match="make nothing"):
        reader.follow(block("sh", "make nothing"))
    with pytest.raises(AssertionError, match="rm"):
        reader.follow(block("sh", "rm file"))
    with pytest.raises(AssertionError, match=r"nowhere\.parquet"):
        reader.follow(block("text", "tree/nowhere.parquet"))
    with pytest.raises(AssertionError, match="begins with"):
        reader.follow(block("console", "xpipe --version"))


def test_a_console_block_shows_what_the_command_prints(tmp_path):
    reader = Reader(tmp_path / "page.md", tmp_path, {})
    reader.follow(Block("page.md", 1, "console", ("$ xpipe --help", "Usage: xpipe [OPTIONS] COMMAND [ARGS]...", "...")))
    with pytest.raises(AssertionError, match="Usage: ypipe"):
        reader.follow(Block("page.md", 1, "console", ("$ xpipe --help", "Usage: ypipe")))


def test_figures_that_differ_from_run_to_run_are_not_compared():
    assert plain("│ read   │ done │ 12 │ 0.1 │ 230.5 MiB │") == plain("│ read │ done │ 12 │ 0.3 │ 1.2 GiB │")
    assert plain("│ P@1 │ 0.25 │") != plain("│ P@1 │ 0.26 │")
    assert plain("done in 3 s") == plain("done in 1.2 s")
    assert alike("│ bsl │ 1,000 │ 3.7e+03 │", "│ bsl │ 999 │ 3.6e+03 │", tolerance=0.1)
    assert not alike("│ bsl │ 1,000 │", "│ bsl │ 1,200 │", tolerance=0.1)
    assert not alike("│ bsl │ 1,000 │", "│ dft │ 1,000 │", tolerance=0.1)
