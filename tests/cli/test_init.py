"""`xpipe init`: guesses with reasons, a file that `load` accepts, and never a file overwritten."""

from __future__ import annotations

import json

import pytest

from tests.samples import run_pipeline, run_xpipe
from tests.tables import recipes, write_table
from xpipe import config
from xpipe.cli.first_pipeline import look_at, write_pipeline
from xpipe.errors import ConfigError
from xpipe.formats import guess_columns

ROWS = recipes(60)


@pytest.mark.parametrize("ending", ["csv", "jsonl.gz", "parquet", "tsv"])
def test_the_columns_are_found_in_any_file(ending, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / f"items.{ending}", ROWS)
    path = write_pipeline(look_at(f"items.{ending}"), None)
    data = config.load(path).data
    assert (data.id, data.text, data.labels, data.group) == ("sku", ["title", "description"], "tags", "brand")
    assert data.separator == (";" if ending in ("csv", "tsv") else None)


def test_the_file_runs_says_why_and_is_never_overwritten(tmp_path):
    write_table(tmp_path / "items.csv", ROWS)
    code, output = run_xpipe("init", "items.csv", cwd=tmp_path)
    assert code == 0, output
    assert output.splitlines()[-2:] == ["wrote items.yaml", "next: xpipe run items.yaml"]
    text = (tmp_path / "items.yaml").read_text()
    assert "# all 60 values that were looked at differ" in text
    assert "15 different values, each 4.0 times" in text
    code, output = run_xpipe("init", "items.csv", cwd=tmp_path)
    assert code == 2
    assert "never overwrites" in output
    assert (tmp_path / "items.yaml").read_text() == text
    settings = (f"data.train={tmp_path}/items.csv", f"out={tmp_path}/runs/items", "train=null", "evaluate=null")
    results = run_pipeline(tmp_path / "items.yaml", *settings, "backend=cpu")
    assert results["stages"][0]["summary"]["splits"] == {"train": 48, "test": 12}


def test_labels_of_groups_must_be_filled_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [{"sku": row["sku"], "title": row["title"], "brand": row["brand"]} for row in ROWS]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    looked = look_at("items.jsonl")
    assert any("data.group_labels" in line for line in looked.missing())
    data = config.load(write_pipeline(looked, "mine.yaml")).data
    assert (data.group, data.group_labels) == ("brand", "FILL_IN")


def test_labels_that_are_the_same_in_all_rows_of_a_group_are_told(tmp_path):
    """Whoever copied the labels of a brand to its rows is told how to find out which row owns them."""
    of_brand: dict[str, list[str]] = {}
    for row in ROWS:
        of_brand.setdefault(row["brand"], row["tags"])
    write_table(tmp_path / "items.csv", [{**row, "tags": of_brand[row["brand"]]} for row in ROWS])
    code, output = run_xpipe("init", "items.csv", cwd=tmp_path)
    assert code == 0, output
    assert "the same in all rows of each brand" in output
    text = (tmp_path / "items.yaml").read_text()
    assert "one row per brand" in text
    assert "assign: {method: auto}" in text
    assert config.load(str(tmp_path / "items.yaml")).data.labels == "tags"
    write_table(tmp_path / "own.csv", ROWS)
    assert "the same in all rows" not in run_xpipe("init", "own.csv", cwd=tmp_path)[1]


def test_another_delimiter_is_seen(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(
        "sku;title;tags\na1;pea soup with leek;soup|quick\na2;rye bread and oil;bread|quick\na3;one two three;bread\n"
    )
    looked = look_at(str(path))
    assert (looked.delimiter, looked.guess.separator, looked.guess.labels.column) == (";", "|", "tags")


def test_a_table_without_rows_gives_no_pipeline(tmp_path):
    (tmp_path / "a.csv").write_text("sku,title\n")
    with pytest.raises(ConfigError, match="without rows"):
        look_at(str(tmp_path / "a.csv"))


def test_a_title_is_a_text_and_no_id_or_label():
    titles = [f"a long title about thing {number}" for number in range(20)]
    guess = guess_columns({"title": titles, "n": list(range(20)), "genre": ["drama", "crime"] * 10})
    assert [text.column for text in guess.text] == ["title"]
    assert guess.id.column == "n"
    assert (guess.labels.column, guess.separator) == ("genre", ";")
    assert guess.group is None
