"""A tree predicts several parts of the rows at once; which parts are together changes nothing."""

from __future__ import annotations

from tests.samples import digests, run_pipeline, write_dataset, write_pipeline
from xpipe.stages.evaluate import work
from xpipe.stages.evaluate.messages import HeadToEvaluate, PartToPredict, TreeToEvaluate

TREE, OTHER = TreeToEvaluate("tree", "tree.npz", "tree"), TreeToEvaluate("other", "other.npz", "tree")
HEAD = HeadToEvaluate("bsl-8", "bsl-8", "heads", "bsl", 8, {})


def together(monkeypatch, sizes):
    monkeypatch.setattr(work, "MOST_ROWS", 10)
    units = [PartToPredict(f"{model.name}-{index}", size, model, index) for index, (model, size) in enumerate(sizes)]
    return [[unit.index for unit in some] for some in work._predicted_together(units)]


def test_parts_of_one_tree_are_together_up_to_a_limit(monkeypatch):
    assert together(monkeypatch, [(TREE, 4), (TREE, 4), (TREE, 4), (TREE, 12), (TREE, 1)]) == [[0, 1], [2], [3], [4]]


def test_other_models_are_apart(monkeypatch):
    assert together(monkeypatch, [(TREE, 1), (OTHER, 1), (OTHER, 1), (HEAD, 1), (HEAD, 1)]) == [[0], [1, 2], [3], [4]]
    assert together(monkeypatch, []) == []


def test_scores_have_the_same_bytes(tmp_path, monkeypatch):
    data = write_dataset(tmp_path)
    settings = (
        "group=null",
        "emit.formats=[parquet]",
        "train.tree.n_trees=1",
        "evaluate.k=3",
        "cluster.chunk_rows=1000",
    )
    found = []
    for most in (1, 10**6):
        monkeypatch.setattr(work, "MOST_ROWS", most)
        results = run_pipeline(write_pipeline(tmp_path / str(most), data), *settings)
        found.append(digests(results)["evaluate"])
    assert found[0] == found[1]
