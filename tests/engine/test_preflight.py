"""What is bound to fail is told before the first stage: by `plan` and by `run`, all at once, and nothing is made."""

from __future__ import annotations

import numpy as np
import pytest

from tests.samples import combinations, random_matrices, run_xpipe
from xpipe import config
from xpipe.cli.progress import Progress
from xpipe.engine import decide, execute
from xpipe.engine import sweep as matrix
from xpipe.errors import ConfigError, DataError, XpipeError
from xpipe.formats import write_xmc
from xpipe.ground import backend

ALL = """
name: sample
data: {{dir: {data}}}
group: {{rule: random, size: 4}}
assign: {{method: baseline}}
emit: {{datasets: [tree, heads], formats: [parquet]}}
train: {{tree: {{n_trees: 1}}, heads: [{{layer: bsl, dim: 4}}]}}
verify: {{split: test}}
evaluate: {{split: test}}
cluster: none
out: {out}
"""


@pytest.fixture
def path(tmp_path, data):
    pytest.importorskip("torch")
    path = tmp_path / "pipeline.yaml"
    path.write_text(ALL.format(data=data, out=tmp_path / "runs" / "sample"))
    return path


def problem_of(path, *overrides) -> XpipeError:
    """What plan says; run says the same, and neither makes anything."""
    told = []
    for act in (decide.plan, run):
        with pytest.raises(XpipeError) as caught:
            act(config.load(path, overrides))
        told.append(caught.value)
    assert str(told[0]) == str(told[1])
    assert not (path.parent / "runs").exists()
    return told[0]


def run(checked):
    with Progress(mode="quiet") as progress:
        execute.run(checked, progress, backend.choose("cpu"))


def test_a_right_pipeline_is_planned(path):
    assert [decision.step.stage.name for decision in decide.plan(config.load(path))] == [
        "read", "group", "assign", "emit", "train", "train_heads", "verify", "evaluate", "report",
    ]  # fmt: skip
    assert not (path.parent / "runs").exists()


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["evaluate.split=dev"], "no split 'dev' with labels to evaluate on"),
        (["verify.split=dev"], "no split 'dev' with labels to verify"),
        (["emit.datasets=[tree]"], "heads are trained on the emitted heads/ dataset"),
        (["emit.datasets=[heads]"], "label trees are trained on the emitted tree/ dataset"),
        (["emit.formats=[xmc]"], "does not write"),
        (["train=null"], "cannot be wired"),
        (["train.heads=[]"], "cannot be wired"),
        (["emit=null"], "cannot be wired"),
        (["group.rule=kmeans", "group.depth=9", "group.size=null"], "depth 9 is too deep for 300 samples"),
        (["group.rule=given", "group.file=nowhere.txt", "group.size=null"], "group.file: there is no such file"),
        (["group.rule=given", "group.file=tests", "group.size=null"], "group.file: a folder"),
        (["train.heads=[{layer: dft, k: 6}]"], "12 labels allow at most 5"),
        (["verify.weights=nowhere.npy"], "verify.weights: there is no such file"),
        (["data.name=eurlex-4kk"], "no dataset is called"),
        (["data.header=false"], "data.n_features and data.n_labels must be given"),
    ],
)
def test_known_before_the_first_stage(path, overrides, words):
    assert words in str(problem_of(path, *overrides))


@pytest.mark.parametrize(
    ("n_lines", "words"), [(299, "299 group ids for 300 samples"), (301, "more than 300 group ids for 300 samples")]
)
def test_groups_of_other_data(path, n_lines, words):
    groups = path.parent / "groups.txt"
    groups.write_text("7\n" * n_lines)
    told = problem_of(path, "group.rule=given", f"group.file={groups}", "group.size=null")
    assert isinstance(told, DataError)
    assert words in str(told)
    groups.write_text("7\n" * 300)
    decide.plan(config.load(path, ["group.rule=given", f"group.file={groups}", "group.size=null"]))


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("emit.formats=[]", "at least one of parquet"),
        ("emit.datasets=[]", "`datasets` must name tree"),
        ("cluster='tcp://'", "address such as tcp://host:8786"),
        ("cluster='tcp://host'", "address such as tcp://host:8786"),
        ("cluster='tcp://host:0'", "address such as tcp://host:8786"),
        ("cluster='tcp://host:99999'", "address such as tcp://host:8786"),
        ("cluster='tcp://:8786'", "address such as tcp://host:8786"),
        ("cluster='http://host:80'", "address such as tcp://host:8786"),
        ("cluster='tcp://host:87 86'", "address such as tcp://host:8786"),
        ("cluster.memory_limit=1MB", "at least 200 MiB"),
        ("cluster.memory_limit=1" + "0" * 400, "a machine can have"),
        ("cluster.task_timeout=1" + "0" * 400, "a machine can have"),
        ("cluster.workers=100000", "at most 4096"),
        ("embed={smallest: 1}", "below 1"),
    ],
)
def test_values_that_no_run_can_use(path, override, words):
    with pytest.raises(ConfigError) as caught:
        config.load(path, [override])
    assert words in str(caught.value)


@pytest.mark.parametrize("address", ["tcp://host:8786", "tls://10.0.0.1:1", "tcp://[::1]:8786", "tcp://a-b.c_d:65535"])
def test_addresses_of_schedulers(path, address):
    assert config.load(path, [f"cluster={address!r}"]).cluster.kind == address


def test_all_problems_come_at_once(path):
    told = str(problem_of(path, "evaluate.split=dev", "verify.split=dev", "emit.datasets=[tree]", "out=/proc/x"))
    for words in ("3 problems", "`out` is in a folder", "evaluate on", "to verify", "heads/"):
        assert words in told or words == "3 problems"


def test_weights_are_looked_at(path, tmp_path):
    np.save(tmp_path / "W.npy", np.ones((7, 3)))
    assert "weights of 7 labels, but label sets of 12" in str(problem_of(path, f"verify.weights={tmp_path}/W.npy"))
    np.savez(tmp_path / "W.npz", a=np.ones((12, 3)), b=np.ones((12, 3)))
    assert "2 arrays" in str(problem_of(path, f"verify.weights={tmp_path}/W.npz"))
    (tmp_path / "bad.npy").write_bytes(b"nothing")
    assert "not a readable npy" in str(problem_of(path, f"verify.weights={tmp_path}/bad.npy"))
    np.save(tmp_path / "many.npy", np.ones((13, 3)))
    told = problem_of(path, f"verify.weights={tmp_path}/many.npy", "verify.label_numbers=heads")
    assert "weights of 13 labels" in str(told)


def test_data_without_training_rows(path, tmp_path):
    (tmp_path / "other").mkdir()
    write_xmc(str(tmp_path / "other" / "test.txt"), *random_matrices(9))
    told = problem_of(path, f"data.dir={tmp_path}/other")
    assert isinstance(told, DataError)
    assert "no training rows" in str(told)


def test_a_split_without_rows(path, tmp_path):
    (tmp_path / "other").mkdir()
    write_xmc(str(tmp_path / "other" / "train.txt"), *random_matrices(30))
    (tmp_path / "other" / "test.txt").write_text("0 40 12\n")
    assert "has no rows" in str(problem_of(path, f"data.dir={tmp_path}/other"))


def test_stand_ins_have_the_splits_of_the_catalog(path):
    standing = ["data.name=eurlex-4k", "data.dir=none", "data.if_missing=synthesize"]
    assert "the data has train, test" in str(problem_of(path, *standing, "evaluate.split=dev"))
    assert decide.plan(config.load(path, standing))
    assert "no dataset is called" in str(problem_of(path, "data.name=x", "data.dir=none", "data.if_missing=synthesize"))


def test_every_combination_is_looked_at_first(path):
    overrides = ["matrix.group.size=[2, 3]", "matrix={evaluate.split: [test, dev]}"]
    members = combinations(path, overrides[1:])
    with pytest.raises(ConfigError, match="no split 'dev'"), Progress(mode="quiet") as progress:
        matrix.run(members, config.load(path, overrides[1:]), progress, backend.choose("cpu"))
    assert not (path.parent / "runs").exists()
    code, output = run_xpipe("plan", path, "--set", overrides[1])
    assert (code, "no split 'dev'" in output) == (2, True), output


def test_a_gpu_that_is_not_there_is_planned_for_as_it_is_run(path):
    code, output = run_xpipe("plan", path, "--set", "backend=gpu")
    assert code in (0, 6), output


def test_folders_of_combinations(path):
    def names(override):
        return [each.pipeline.out.rpartition("/")[2] for each in combinations(path, [override])]

    three = names("matrix={train.tree.n_trees: [1, 2], train.tree.arity: [2, 3], evaluate.k: [1, 2]}")
    assert len({name.lower() for name in three}) == len(three)
    heads = names("matrix={train.heads: [[" + ", ".join("{layer: bsl, dim: 5}" for _ in range(60)) + "]]}")
    assert all(len(name) < 150 for name in heads)
    odd = matrix.folder_name({"a": ".."}, set()), matrix.folder_name({"a": "//"}, set())
    assert odd == ("combination", "combination")
    taken = {"table.json"}
    assert [matrix.folder_name({"a": text}, taken) for text in ("A", "a", "table.json")] == ["A", "a-2", "table.json-2"]


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("matrix={out: [a, b]}", "cannot vary out"),
        ("matrix={store: [a, b]}", "cannot vary store"),
        ("matrix={group.size: [4, 4]}", "twice"),
        (
            "matrix={" + ", ".join(f"evaluate.k{i}: [1,2,3,4,5,6,7,8,9,10]" for i in range(5)) + "}",
            "100,000 combinations",
        ),
        ("matrix={group.sise: [4]}", "did you mean `size`"),
    ],
)
def test_matrices_that_cannot_be_run(path, override, words):
    with pytest.raises(ConfigError) as caught:
        combinations(path, [override])
    assert words in str(caught.value)
