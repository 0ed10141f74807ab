"""Reproductions: every configuration is right, every page holds, and the cheapest one is measured again."""

from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from reproductions.__main__ import reproduce
from reproductions.comparison import compare
from reproductions.configuration import Configuration, Measured, load, measure_of, names
from reproductions.measures.pipeline_run import in_percent
from xpipe.errors import ConfigError

TOP = Path(__file__).parent.parent
PAGES = TOP / "docs" / "reproductions"


@pytest.mark.parametrize("name", names())
def test_every_configuration_has_its_measure_and_its_line(name):
    if name in ("quasibinary_table2", "lml_fig3"):
        pytest.importorskip("torch")
    assert callable(measure_of(load(name)))
    assert f"`{name}`" in (PAGES / "index.md").read_text()


def test_every_page_is_that_of_a_reproduction_that_holds():
    pages = sorted(page.stem for page in PAGES.glob("*.md") if page.stem != "index")
    assert set(pages) <= set(names())
    for name in pages:
        shown = (PAGES / f"{name}.md").read_text()
        assert "| NO |" not in shown
        for expected in load(name).expected:
            row = next(line for line in shown.splitlines() if line.startswith(f"| {expected.figure} |"))
            assert expected.low <= float(row.split("|")[4]) <= expected.high


def test_permuted_regression_comes_out_as_published(tmp_path):
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
