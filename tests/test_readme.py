"""README and docs: every block of code runs as it is written, and every table of figures names what makes it.

Blocks run in order in one folder that holds a small run of pipelines/eurlex.yaml at runs/eurlex, and files with the
names that the commands use. Kinds: python (executed), yaml (a whole pipeline, or sections of one: loaded), sh (xpipe
commands are run, make targets must exist), console (the same for the line after `$ `, then what it prints), text
(pictures of folders, whose file names must be those of the run, and of modules). A block of another kind fails.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import yaml

from tests.markdown import Block, blocks_of, tables_without_command
from tests.samples import combinations, run_pipeline, run_xpipe

TOP = Path(__file__).parent.parent
PAGES = [TOP / "README.md", *sorted((TOP / "docs").rglob("*.md"))]
KINDS = ("python", "yaml", "sh", "console", "text")
SMALL = (  # what makes pipelines/eurlex.yaml a matter of seconds
    "data={name: tiny, dir: data/none, if_missing: synthesize, part_rows: 200}",
    "train={tree: {n_trees: 1}, heads: [{layer: bsl, dim: 8, width: 16, epochs: 2}]}",
    "evaluate.resamples=10",
    "cluster=none",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder in which a reader stands: a run of eurlex, and files of their own."""
    pytest.importorskip("torch")
    top, before = tmp_path_factory.mktemp("reader"), Path.cwd()
    os.chdir(top)
    try:
        run_pipeline(TOP / "pipelines" / "eurlex.yaml", *SMALL, "out=runs/eurlex")
        from xpipe.formats import parquet, write_xmc

        for split in ("train", "test"):
            X, Y = parquet.read_split("runs/eurlex/tree", split)
            write_xmc(f"{split}.txt", X, binary(Y))
        sp.save_npz("scores.npz", binary(Y))
        np.save("W.npy", unable_weights(Y))
        Path("labels.txt").write_text("".join(f"name {label}\n" for label in range(Y.shape[1])))
        yield top
    finally:
        os.chdir(before)


def binary(Y):
    return sp.csr_matrix((np.ones(len(Y.indices), np.float32), Y.indices, Y.indptr), Y.shape)


def unable_weights(Y, row=3):
    """Weights of two columns that cannot produce the given row of Y, which has labels."""
    from xpipe.argmaxability import verify

    for seed in range(100):
        W = np.random.default_rng(seed).standard_normal((Y.shape[1], 2))
        if verify(W, binary(Y)[row : row + 1]).status[0] == "unargmaxable":
            return W
    raise AssertionError("every set of two columns can be produced")


def given_names() -> dict:
    """What the text calls yours: probabilities, weights and names."""
    from xpipe.formats import parquet

    _, Y = parquet.read_split("runs/eurlex/tree", "train")
    _, Y_test = parquet.read_split("runs/eurlex/tree", "test")
    P = binary(Y_test) * np.float32(0.75)
    names = [f"n{label}" for label in range(Y.shape[1])]
    return {"P": P, "P_unknown": P * np.float32(0.5), "W": unable_weights(Y), "names": names}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_of_a_known_kind(page):
    unknown = [f"{block}: {block.kind}" for block in blocks_of(page) if block.kind not in KINDS]
    assert not unknown, f"write ```python, yaml, sh, console or text before: {unknown}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run_in_order(page, folder):
    names = given_names()
    for block in blocks_of(page):
        if block.kind == "python":
            code = compile("\n" * block.line + block.text, str(page), "exec")
            exec(code, names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_yaml_blocks_are_pipelines(page, tmp_path):
    from xpipe import config

    for block in blocks_of(page):
        if block.kind != "yaml":
            continue
        sections = yaml.safe_load(block.text)
        path = tmp_path / f"{block.line}.yaml"
        text = block.text
        if "name" not in sections:  # sections of a pipeline: the others are those of the first one
            text = "name: part\ndata: {dir: data/mine}\n" + text
        path.write_text(text)
        checked = config.load(path)
        assert not checked.matrix or combinations(path), block


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run(page, folder):
    targets = re.findall(r"^([a-z-]+):", (TOP / "Makefile").read_text(), re.MULTILINE)
    for block in blocks_of(page):
        if block.kind not in ("sh", "console"):
            continue
        commands = commands_of(block)
        assert commands, f"{block} has no command"
        for command in commands:
            words = shlex.split(command, comments=True)
            if words[0] == "make":
                assert set(words[1:]) <= set(targets), f"{block}: {command}"
                continue
            assert words[0] == "xpipe", f"{block}: {command}"
            code, output = run_xpipe(*words[1:], cwd=folder)
            assert code in (0, 1), output  # 1: verify found sets that cannot be produced
            for title in titles_of(block):
                assert title in output, f"{block} shows {title!r}, the command does not"


def commands_of(block: Block) -> list[str]:
    if block.kind == "console":
        assert block.lines[0].startswith("$ "), f"{block}: a console block begins with `$ ` and its command"
        return [line[2:] for line in block.lines if line.startswith("$ ")]
    return [line for line in block.lines if line.strip() and not line.startswith("#")]


def titles_of(block: Block) -> list[str]:
    """Titles of the columns that a console block shows."""
    rows = [line for line in block.lines if line.startswith("┃")]
    return [title.strip() for row in rows for title in row.strip("┃").split("┃")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pictures_name_what_is_there(page, folder):
    made = {path.name for path in (folder / "runs" / "eurlex").rglob("*")}
    sources = {path.name for path in (TOP / "xpipe").rglob("*")} | {path.stem for path in (TOP / "xpipe").glob("*.py")}
    for block in blocks_of(page):
        if block.kind != "text":
            continue
        for word in re.findall(r"[\w=*-]+(?:/|\.json|\.parquet)[\w.-]*", block.text):
            name = word.strip("/").split("/")[-1].rstrip(".") or word.split("/")[0]
            assert name in made | sources, f"{block} names {word}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_table_of_figures_names_its_command(page):
    assert tables_without_command(page) == []


def test_a_page_that_says_nothing_of_its_blocks_fails(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Title\n\nText\n\n    indented\n\n```\nno kind\n```\n\n- a list\n\n    with more\n\n"
        "| a | b |\n|---|---|\n| x | 1.5 |\n| y | 2.5 |\n| z | 3.5 |\n"
    )
    assert [block.kind for block in blocks_of(page)] == ["indented", "without a kind"]
    assert tables_without_command(page) == [15]
    page.write_text(page.read_text() + "\n(`python benchmarks/read.py`)\n")
    assert tables_without_command(page) == []


def test_rooms_and_their_files_are_there_after_one_import():
    import xpipe

    for room in ("argmaxability", "eagle", "formats", "heads", "metrics", "trees"):
        for path in sorted((TOP / "xpipe" / room).glob("[a-z]*.py")):
            assert getattr(getattr(xpipe, room), path.stem) is not None
    with pytest.raises(AttributeError, match="no attribute 'parket'"):
        _ = xpipe.formats.parket
