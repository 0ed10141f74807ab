"""Reproductions: every configuration is right, every page holds, every table of results has one, quick ones run.

Quick ones are those that take less than two minutes and need no data. Figures about speed are not looked at: another
machine, or a busy one, has others.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from reproductions.__main__ import reproduce
from reproductions.comparison import compare, interval
from reproductions.configuration import Configuration, Expected, Measured, load, measure_of, names
from reproductions.index_page import index_text
from reproductions.measures import benchmark
from reproductions.measures.pipeline_run import in_percent
from tests.markdown import tables_of
from xpipe import config
from xpipe.errors import ConfigError, DataError, StageError

TOP = Path(__file__).parent.parent
PAGES = TOP / "docs" / "reproductions"
BENCHMARKS = TOP / "benchmarks"
WITH_TORCH = ("zero_labels", "time_against_k")  # measures that import it
QUICK = [name for name in names() if load(name).is_quick()]


def with_measure(measure: str) -> list[str]:
    return [name for name in names() if load(name).measure == measure]


@pytest.mark.parametrize("name", names())
def test_every_configuration_has_its_measure_and_its_line(name):
    configuration = load(name)
    if configuration.measure in WITH_TORCH:
        pytest.importorskip("torch")
    assert callable(measure_of(configuration))
    assert f"`{name}`" in (PAGES / "index.md").read_text()
    figures = [expected.figure for expected in configuration.expected]
    assert len(set(figures)) == len(figures)
    assert not any("|" in figure for figure in figures)  # it would end a cell of the page


def test_the_index_has_every_reproduction_with_the_page_that_is_there():
    assert (PAGES / "index.md").read_text() == index_text(PAGES)


class ParsedError(Exception):
    """The arguments of a benchmark are right."""


@pytest.mark.parametrize("name", with_measure("benchmark"))
def test_every_benchmark_takes_its_arguments(name, tmp_path, monkeypatch):
    configuration = load(name)
    if configuration.options["benchmark"] == "heads_loading":
        pytest.importorskip("torch")
    for options in (configuration.options, {**configuration.options, **configuration.in_tests}):
        words = [word.replace("{data}", str(tmp_path)) for word in map(str, options.get("arguments", ()))]
        parse_only(options["benchmark"], [*words, "--json", str(tmp_path / "figures.json")], monkeypatch)


def parse_only(benchmark_name: str, words: list[str], monkeypatch) -> None:
    """Start a benchmark; argparse must take all words, and nothing is measured."""
    parse = argparse.ArgumentParser.parse_args

    def parse_and_stop(parser, *given, **options):
        parse(parser, *given, **options)
        raise ParsedError

    known = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCHMARKS))  # benchmarks import each other
    monkeypatch.setattr(sys, "argv", [benchmark_name, *words])
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_and_stop)
    spec = importlib.util.spec_from_file_location(f"benchmark_{benchmark_name}", BENCHMARKS / f"{benchmark_name}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look for their module
    try:
        spec.loader.exec_module(module)
        with pytest.raises(ParsedError):
            module.main()
    finally:
        monkeypatch.undo()
        own = {path.stem for path in BENCHMARKS.glob("*.py")}
        for imported in own & (set(sys.modules) - known):
            del sys.modules[imported]


def test_arguments_that_a_benchmark_does_not_take_are_found(monkeypatch):
    with pytest.raises(SystemExit):
        parse_only("trust", ["--depth", "8"], monkeypatch)


@pytest.mark.parametrize("name", with_measure("pipeline_run"))
def test_every_pipeline_takes_its_settings(name, tmp_path):
    for table in ("train", "test", "labels"):
        (tmp_path / f"{table}.parquet").touch()
    options = load(name).options
    config.load(
        TOP / options["pipeline"], [text.replace("{data}", str(tmp_path)) for text in options.get("settings", ())]
    )


def test_every_table_of_results_names_its_reproductions():
    """In the text around the table: from the heading or table before it to the one after it."""
    page = TOP / "docs" / "results.md"
    found = {
        line: set(re.findall(r"`(?:make reproduce )?(\w+)`", text)) & set(names()) for line, text in tables_of(page)
    }
    assert len(found) > 20
    assert [line for line, named in found.items() if not named] == []


def test_names_of_reproductions_in_the_docs_exist():
    for page in [TOP / "README.md", TOP / "CONTRIBUTING.md", *(TOP / "docs").rglob("*.md")]:
        named = set(re.findall(r"make reproduce ([a-z]\w+)", page.read_text()))
        assert named <= set(names()), page


def test_every_reproduction_of_this_project_is_named_where_its_figures_stand():
    shown = "".join(page.read_text() for page in [TOP / "docs" / "results.md", *(TOP / "docs" / "guides").glob("*.md")])
    ours = [name for name in names() if load(name).source.startswith("This project")]
    assert [name for name in ours if f"`{name}`" not in shown and f"`make reproduce {name}`" not in shown] == []


@pytest.mark.parametrize("name", QUICK)
def test_quick_ones_come_out_as_expected(name):
    configuration = load(name)
    if configuration.measure in WITH_TORCH or configuration.options.get("benchmark") == "heads_loading":
        pytest.importorskip("torch")
    measured = measure_of(configuration)({**configuration.options, **configuration.in_tests}, None)
    wrong = [each for each in compare(configuration, measured) if not each.holds and not each.expected.speed]
    assert wrong == []


def test_a_benchmark_that_fails_and_data_that_is_missing_are_told(tmp_path):
    with pytest.raises(StageError, match="the benchmark failed"):
        benchmark.measure({"benchmark": "dft", "arguments": ["--sets", "no"]}, None)
    with pytest.raises(DataError, match="data is missing"):
        benchmark.measure({"benchmark": "dft", "arguments": ["{data}/train.txt"]}, str(tmp_path))
    (tmp_path / "mine").mkdir()
    with pytest.raises(ConfigError, match="must have the name bibtex"):
        reproduce("trust_bibtex", str(tmp_path / "mine"), tmp_path)


def test_figures_of_a_benchmark_are_written_by_name(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import named_figures

    monkeypatch.setattr(named_figures, "_found", {})
    named_figures.write(None)
    named_figures.record("a", 1)
    named_figures.write(tmp_path / "figures.json")
    assert json.loads((tmp_path / "figures.json").read_text()) == {"a": 1.0}
    with pytest.raises(ValueError, match="two figures"):
        named_figures.record("a", 2)


def test_an_interval_may_have_one_end():
    assert interval(Expected(figure="a", low=2)) == "at least 2"
    assert interval(Expected(figure="a", high=0)) == "at most 0"
    assert [Expected(figure="a", low=2).holds(got) for got in (1.9, 2, 1e9)] == [False, True, True]
    assert [Expected(figure="a", high=0).holds(got) for got in (-1, 0, 0.1)] == [True, True, False]
    with pytest.raises(ValueError, match="must be there"):
        Expected(figure="a")


def test_every_page_is_that_of_a_reproduction_that_holds():
    pages = sorted(page.stem for page in PAGES.glob("*.md") if page.stem != "index")
    assert set(pages) <= set(names())
    for name in pages:
        shown = (PAGES / f"{name}.md").read_text()
        assert "| NO |" not in shown
        for expected in load(name).expected:
            row = next(line for line in shown.splitlines() if line.startswith(f"| {expected.figure} |"))
            assert expected.holds(float(row.split("|")[4]))


def test_a_page_is_written_where_a_reproduction_runs(tmp_path):
    verdicts = reproduce("eagle_fig3", None, tmp_path)
    assert [verdict.expected.figure for verdict in verdicts if not verdict.holds] == []
    assert "sigma_2" in (tmp_path / "eagle_fig3.md").read_text()


def test_a_figure_outside_of_its_interval_or_missing_does_not_hold():
    found = compare(load("eagle_fig3"), Measured({"B_NoAS at sigma_2 = 0": 1.0, "B_AS at sigma_2 = 0": 1.1}))
    assert [verdict.holds for verdict in found[:3]] == [True, False, False]


def test_mistakes_are_told(tmp_path):
    with pytest.raises(ConfigError, match="no reproduction 'eagle_fig'"):
        load("eagle_fig")
    with pytest.raises(ConfigError, match="needs data"):
        reproduce("eurlex57k_neural", None, tmp_path)
    right = yaml.safe_load((TOP / "reproductions" / "eagle_fig3.yaml").read_text())
    with pytest.raises(ValueError, match="must not be above"):
        Configuration.model_validate({**right, "expected": [{"figure": "a", "low": 2, "high": 1}]})


def test_the_smooth_svm_is_that_of_its_definition():
    """By brute force: log-sum-exp over all sets of k labels, with and without the true one."""
    torch = pytest.importorskip("torch")
    from reproductions.measures.smooth_svm import smooth_svm_loss

    torch.manual_seed(0)
    scores, labels, tau = torch.randn(3, 7, dtype=torch.float64), torch.tensor([0, 3, 6]), 0.7
    for k in (1, 2, 5):
        wanted = []
        for row, label in zip(scores, labels.tolist(), strict=True):
            sets = list(itertools.combinations(range(7), k))
            means = torch.stack([row[list(chosen)].sum() / k for chosen in sets])
            has = torch.tensor([label in chosen for chosen in sets])
            every = torch.logsumexp((means + (~has).double()) / tau, 0)
            wanted.append(tau * (every - torch.logsumexp(means[has] / tau, 0)))
        found = smooth_svm_loss(scores, labels, k, tau)
        assert float(found) == pytest.approx(float(torch.stack(wanted).mean()), rel=1e-9)


def test_make_takes_the_name_as_a_word():
    shown = subprocess.run(
        ["make", "-n", "reproduce", "eagle_fig3", "DATA=a b"], cwd=TOP, capture_output=True, text=True, check=True
    ).stdout
    assert re.search(r"python -m reproductions eagle_fig3 --data 'a b'", shown)


def test_shares_of_a_run_are_percents_of_a_paper():
    run = SimpleNamespace(metrics={"tree.precision_at_1": 0.875, "verify.heads.bsl.argmaxable": 12, "tree.ece": 0.5})
    assert in_percent(run) == {"tree.precision_at_1": 87.5, "verify.heads.bsl.argmaxable": 12, "tree.ece": 0.5}
