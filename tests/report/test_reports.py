"""The HTML of reports: complete, escaped, the same every time, and nothing loaded from anywhere."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

from tests.report.runs import HOSTILE, figures, results, write_run
from xpipe.errors import DataError, printable
from xpipe.report import matrix_report, run_report
from xpipe.report.run_section import _facts


class Seen(HTMLParser):
    """The elements of a page with their attributes, and the texts of those that are open."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def test_a_report_has_all_its_sections(text):
    titles = re.findall(r"<h2 [^>]*>([^<]+)</h2>", text)
    assert titles == [
        "What ran", "The data", "The assignment", "The models", "What heads can produce", "How to make this again",
    ]  # fmt: skip
    assert "cannot be shown" not in text
    for picture in (
        "Time and peak memory", "Labels per row, train", "Features (words) per row, test", "Label frequencies",
        "Rows per group", "Labels per group", "Chances of the owners", "Reliability of the owners",
        "Reliability on groups set aside", "What methods explain", "Precision at k", "Recall by label frequency",
        "Reliability of tree", "Reliability of bsl-4", "Training loss", "Held-out nDCG@5",
        "Radius by number of active labels", "Label sets that can be produced",
    ):  # fmt: skip
        assert f"<figcaption>{picture}" in text, picture
    for words in (
        "0.850 to 0.910",
        "By chances.",
        "Doubtful groups",
        "Easy groups",
        "xpipe run sample.yaml",
        "SYNTHETIC",
    ):
        assert words in text, words
    assert "1 of them was in the store already" in text


def test_the_report_of_a_matrix_has_heat_maps_and_lines(matrix_text):
    for picture in (
        "Figures of every run",
        "P@3 of tree, %: group by assign.method",
        "P@k: tree, random 4",
        "Time of each run",
    ):
        assert f"<figcaption>{picture}" in matrix_text, picture
    assert "eagle closes 75.0% of the gap" in matrix_text
    assert "Between baseline and oracle" in matrix_text


def test_the_line_of_a_method_lies_between_baseline_and_oracle(matrix_text):
    """At rank 1: baseline 60, eagle 65, oracle 75, so a third of the gap."""
    closed = matrix_text[matrix_text.index("<figcaption>Gap closed: tree, random 4") :]
    assert re.search(r"<td[^>]*>eagle</td><td[^>]*>1</td><td[^>]*>33\.3</td>", closed)


@pytest.mark.parametrize("which", ["text", "matrix_text"])
def test_every_picture_has_its_numbers_and_a_text_alternative(request, which):
    page = request.getfixturevalue(which)
    figures = re.findall(r"<figure(?! class=\"code\").*?</figure>", page, re.DOTALL)
    assert len(figures) >= 5
    for figure in figures:
        (label,) = re.findall(r'role="img" aria-label="([^"]+)"', figure)
        assert len(label) > 20
        assert re.search(r"<details><summary>Numbers</summary>.*<tbody>\s*<tr>", figure, re.DOTALL), figure[:200]
        assert "<path" in figure or "<use" in figure


@pytest.mark.parametrize("which", ["text", "matrix_text"])
def test_nothing_is_loaded_and_ids_are_unique(request, which):
    seen = Seen(request.getfixturevalue(which))
    for tag, attributes in seen.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form"), tag
        for name in ("src", "srcset", "href", "xlink:href", "action", "data"):
            assert attributes.get(name, "#").startswith("#"), (tag, attributes)
    assert len(seen.all("script")) == 1
    assert "@import" not in request.getfixturevalue(which)
    ids = [attributes["id"] for _, attributes in seen.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    used = re.findall(r'(?:href="#|url\(#)([^")]+)', request.getfixturevalue(which))
    assert {each for each in used if each not in ("here",)} <= set(ids)


def test_names_are_text_and_nothing_else(text):
    seen = Seen(text)
    assert not any(name.startswith("on") for _, attributes in seen.elements for name in attributes)
    assert not seen.all("b")
    for name in HOSTILE:
        assert printable(name) in seen.texts, name
    assert not any(ord(letter) < 32 and letter not in "\n\t" for letter in text)
    assert "\u202e" not in text


def test_the_same_run_gives_the_same_text_whatever_the_order_of_its_keys(tmp_path):
    few = results(outputs={}, trust=None)
    write_run(tmp_path, outputs={}, trust=None)
    assert run_report(str(tmp_path), dict(reversed(few.items()))) == run_report(str(tmp_path))


def test_what_a_run_does_not_have_is_left_out(tmp_path):
    write_run(tmp_path, synthetic=False, outputs={}, trust=None, stages=[])
    text = run_report(str(tmp_path))
    assert "SYNTHETIC" not in text
    assert re.findall(r"<h2 [^>]*>([^<]+)</h2>", text) == ["What ran", "The data", "How to make this again"]
    assert "no figures of its data" in text


def test_a_section_of_a_damaged_file_says_so_and_the_others_stay(tmp_path):
    write_run(tmp_path, outputs={"verification.json": {}})
    (tmp_path / "verification.json").write_text('{"heads": [3]}')
    text = run_report(str(tmp_path))
    assert text.count("This section cannot be shown") == 1
    assert "Time and peak memory" in text


@pytest.mark.parametrize("content", ["{", "[]", json.dumps(figures() | {"splits": {"train": 3}})])
def test_damaged_figures_are_an_error_that_names_the_file(tmp_path, content):
    write_run(tmp_path)
    (tmp_path / "figures.json").write_text(content)
    with pytest.raises(DataError, match=r"figures\.json"):
        run_report(str(tmp_path))


def test_a_folder_without_results_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no results"):
        run_report(str(tmp_path))
    with pytest.raises(DataError, match="no table"):
        matrix_report(str(tmp_path))


def test_a_run_on_a_scheduler_elsewhere_has_no_memory_limit_to_tell():
    facts = {"seed": 0, "backend": {"name": "cpu"}, "peak_memory_main": 2**20}
    told = dict(_facts(SimpleNamespace(results=facts | {"cluster": {"kind": "scheduler", "workers": 3}})))
    assert told["cluster"] == "scheduler, 3 workers"
