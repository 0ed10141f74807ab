"""The backend `xpipe` in the real Annif: its own commands train, suggest, evaluate, save and load.

Holds no speed (`benchmarks/annif.py`). `make test-annif` runs it; elsewhere it is skipped.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.annif.annif_home import environment, uri, write_corpus, write_home
from tests.markdown import blocks_of

pytest.importorskip("annif")
RECIPES = Path(__file__).parent.parent.parent / "data" / "recipes"


GUIDE = RECIPES.parent.parent / "docs" / "guides" / "annif.md"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with the committed recipes, in which the guide was followed."""
    folder = tmp_path_factory.mktemp("annif")
    with open(RECIPES / "labels.csv") as labels, open(RECIPES / "items.csv") as items:
        names = {row["label"]: row["name"] for row in csv.DictReader(labels)}
        rows = [(f"{row['title']}. {row['text']}", row["tags"].split(";")) for row in csv.DictReader(items)]
    write_home(folder, names, {"odd": {"backend": "xpipe", "arity": 1, "vocab": "recipes"}})
    write_corpus(folder / "train.tsv", [(text, filter(None, tags)) for text, tags in rows])
    (folder / "document.txt").write_text("Knead the dough and bake the loaf of rye bread.")
    registered, project, commands = (block.text for block in blocks_of(GUIDE) if block.kind == "text")
    assert registered == f"export ANNIF_CONFIG={environment(folder)['ANNIF_CONFIG']}\n"
    with open(folder / "projects.cfg", "a") as stream:
        stream.write("\n" + project)
    printed = [annif(folder, *command.split()[1:]) for command in commands.splitlines()]
    (folder / "suggested.txt").write_text(printed[2])
    return folder


def annif(home: Path, *words: str, text: str = "", fails: bool = False) -> str:
    """What a command of Annif prints, in a process of its own: whatever it knows, it has loaded."""
    code = "import sys; from annif.cli import cli; sys.exit(cli())"
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, input=text, env=environment(home), capture_output=True, text=True, check=False,
                          cwd=home)  # fmt: skip
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_suggesting_loads_what_training_saved(home):
    lines = [line for line in (home / "suggested.txt").read_text().splitlines() if line.startswith("<")]
    assert lines[0].startswith(f"<{uri('bread')}>\tBread and buns\t")
    scores = [float(line.split("\t")[2]) for line in lines]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)


def test_evaluating_in_parallel(home):
    found = json.loads((home / "metrics.txt").read_text())
    assert found["NDCG"] > 0.9
    assert found["Documents_evaluated"] == 25


def test_training_again_from_cached_rows_gives_the_same_bytes(home):
    model = home / "data" / "projects" / "tree-en" / "xpipe-tree.npz"
    before = model.read_bytes()
    annif(home, "train", "tree-en", "--cached", "--jobs", "2")
    assert model.read_bytes() == before
    annif(home, "train", "tree-en", "--cached", "--backend-param", "xpipe.seed=1", "--backend-param", "xpipe.n_trees=1")
    assert model.read_bytes() != before


def test_terms_count_by_their_logarithm_unless_a_project_says_otherwise(home):
    from xpipe.text import Vectorizer

    (saved,) = home.rglob("tree-en/xpipe-vectorizer")
    assert Vectorizer.load(str(saved)).sublinear is True
    annif(home, "train", "tree-en", str(home / "train.tsv"), "--backend-param", "xpipe.sublinear=false")
    assert Vectorizer.load(str(saved)).sublinear is False
    annif(home, "train", "tree-en", str(home / "train.tsv"))


def test_mistakes_are_told_by_annif(home):
    assert "`arity` must be at least 2" in annif(home, "train", "odd", str(home / "train.tsv"), fails=True)
    assert "not trained" in annif(home, "suggest", "odd", text="bread", fails=True)


def test_a_text_without_known_words_has_no_suggestions(home):
    assert "<" not in annif(home, "suggest", "tree-en", text="zzzz qqqq 123")
