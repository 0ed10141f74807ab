"""`xpipe owners` and `xpipe predict` as a user meets them, in this process; tables fit 80 columns."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tests.eagle.samples import planted
from tests.samples import run_pipeline, write_pipeline
from xpipe.cli.main import cli
from xpipe.errors import ConfigError, DataError, XpipeError
from xpipe.formats import write_xmc
from xpipe.formats.owner_files import write_owners


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose owners are written by hand."""
    folder = tmp_path_factory.mktemp("owners") / "runs" / "mine"
    rows = {
        "row": [0, 0, 1, 2],
        "id": ["sku-0", "sku-0", "sku-1", None],
        "group": ["acme", "acme", "acme", "7"],
        "label": [1, 2, 1, 1],
        "name": ["red [bold]", "green", "red [bold]", "red [bold]"],
        "chance": [0.9, 0.2, 0.4, 1.0],
    }
    write_owners(str(folder / "owners" / "part-00000.parquet"), {n: v[:2] for n, v in rows.items()}, 3)
    write_owners(str(folder / "owners" / "part-00001.parquet"), {n: v[2:] for n, v in rows.items()}, 3)
    figure = {"value": 0.625, "low": 0.5, "high": 0.75}
    trust = {"expected": dict.fromkeys(("precision", "recall", "f1"), figure),
             "true": {"precision": 0.6, "recall": 0.7, "f1": 0.65}, "why": "from chances"}  # fmt: skip
    results = {
        "name": "mine",
        "synthetic": True,
        "stages": [{"stage": "read", "key": "0a1b", "status": "ran", "seconds": 1, "summary": {}}],
        "outputs": {},
        "seconds": 1,
        "out": str(folder),
    }
    (folder / "results.json").write_text(json.dumps({**results, "trust": trust}))
    return folder


def call(*arguments: object) -> str:
    """What a command prints. Its errors are raised."""
    done = CliRunner().invoke(cli, [*map(str, arguments)], catch_exceptions=False, env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    return done.output


def test_an_overview_with_expected_and_true_figures(run):
    shown = call("owners", run)
    assert "4 owners: 3 rows, 2 groups, 2 labels" in shown
    assert all(text in shown for text in ("0.625", "0.500", "0.750", "0.650", "SYNTHETIC", "from chances"))


def test_the_members_of_a_group(run):
    shown = call("owners", run, "--group", "acme")
    assert "group acme: 2 members own 3 labels" in shown
    assert "red [bold]" in shown  # a name is no markup
    assert "sku-1" in shown
    assert "1.000" not in shown
    assert "and 2 more" in call("owners", run, "--group", "acme", "--most", 1)


def test_the_owners_of_a_label_surest_first(run):
    shown = call("owners", run, "--label", "red [bold]")
    assert "3 owners" in shown
    assert shown.index("1.000") < shown.index("0.900") < shown.index("0.400")
    assert call("owners", run, "--label", "1") == shown
    assert "green (label 2): 1 owners" in call("owners", run, "--label", "green")


def test_texts_stand_beside_owners(run):
    texts = run.parent / ".store" / "read-0a1b" / "texts" / "split=train"
    texts.mkdir(parents=True)
    long = "a  kettle\nmade of " + "steel " * 40
    try:
        pq.write_table(pa.table({"sample": [0, 1], "text": ["a [b]lamp[/b]", long]}), texts / "part-00000.parquet")
        shown = call("owners", run, "--doubtful", 2)
    finally:
        shutil.rmtree(run.parent / ".store")
    assert "a [b]lamp[/b]" in shown
    assert "a kettle made of steel" in shown
    assert "..." in shown
    assert "lamp" not in call("owners", run, "--doubtful", 2)


def test_the_most_doubtful(run):
    shown = call("owners", run, "--doubtful", 2)
    assert shown.index("0.200") < shown.index("0.400")
    assert "0.900" not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--group", "acne"), "did you mean acme"),
        (("--label", "gren"), "did you mean green"),
        (("--label", "9"), "nobody owns"),
        (("--label", "99999999999"), "nobody owns"),
        (("--group", "acme", "--label", "1"), "exclude each other"),
    ],
)
def test_mistakes(run, arguments, message):
    with pytest.raises(ConfigError) as told:
        call("owners", run, *arguments)
    assert message in str(told.value)


def test_a_run_without_owners_or_chances(run, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "results.json").write_text((run / "results.json").read_text())
    with pytest.raises(DataError, match="no owners"):
        call("owners", bare)
    rows = {"row": [0], "id": [None], "group": ["0"], "label": [1], "name": [None], "chance": [None]}
    write_owners(str(bare / "owners" / "part-00000.parquet"), rows, 3)
    with pytest.raises(ConfigError, match="no chances"):
        call("owners", bare, "--doubtful", 3)
    assert "chance" not in call("owners", bare, "--group", "0")


def test_from_groups_to_owners_and_predictions(tmp_path):
    """The whole way of a small pipeline with a tree."""
    data, (X, Y) = tmp_path / "data", planted(210)
    data.mkdir()
    write_xmc(str(data / "train.txt"), X[:200], Y[:200])
    write_xmc(str(data / "test.txt"), X[200:], Y[200:])
    path = write_pipeline(tmp_path, data, "assign: {method: discriminative}\ntrain: {tree: {n_trees: 1}}\n")
    run_pipeline(path, "emit.formats=[parquet]", "emit.datasets=[tree]")
    run = tmp_path / "runs" / "sample"
    assert "expected" in call("owners", run)
    assert "the 5 owners with the lowest chances" in call("owners", run, "--doubtful", 5)
    out = tmp_path / "predictions.parquet"
    assert "20 predictions for 10 rows by tree" in call("-q", "predict", run, data, "--out", out, "-k", 2)
    assert out.exists()
    with pytest.raises(XpipeError, match="no run"):
        call("-q", "predict", tmp_path / "nothing", data, "--out", out)
