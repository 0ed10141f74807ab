"""Stages train and evaluate: the library's model and metrics, whoever computes them, killed or not."""

from __future__ import annotations

import json
import random
import time

import numpy as np
import pytest

from tests.engine.test_interruptions import kill
from tests.samples import bytes_below, digests, run_pipeline, start_xpipe, write_dataset, write_pipeline
from tests.waiting import wait_for
from xpipe.engine.messages import Finished
from xpipe.errors import ConfigError
from xpipe.formats import read_xmc
from xpipe.formats.parquet import iterate_groups, read_about, read_label_embedding, read_split
from xpipe.ground.sparse import to_matrix
from xpipe.ground.sparse_rows import concatenate, matrix_with_ones
from xpipe.metrics import measure
from xpipe.stages.evaluate import work as evaluation
from xpipe.stages.train_trees import placing, planning, stored_rows
from xpipe.stages.train_trees.messages import NodeToSplit, Planning
from xpipe.trees import LabelTree, row_parts

TREE = ("train.tree.n_trees=2", "train.tree.arity=2", "train.tree.max_leaf=4")
SETTINGS = ("emit.formats=[parquet]", *TREE, "evaluate.k=3")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("data"))


def run(tmp_path, data, *overrides, cluster="none"):
    path = write_pipeline(tmp_path, data, cluster=cluster)
    return run_pipeline(path, "assign.method=centred", *SETTINGS, *overrides)


def recorded(split, splits):
    """The same work, and a list of the nodes it is done for."""

    def split_node(folder: str, unit: NodeToSplit, shared: Planning) -> Finished[None]:
        splits.append((unit.tree, unit.level, unit.number, unit.last))
        return split(folder, unit, shared)

    return split_node


def summary_of(results, stage):
    return next(made for made in results["stages"] if made["stage"] == stage)["summary"]


@pytest.mark.parametrize(("many", "part"), [(1, 30), (planning.MANY_LABELS, row_parts.ROWS_OF_PART)])
def test_the_stages_are_the_library(tmp_path, data, monkeypatch, many, part):
    monkeypatch.setattr(row_parts, "ROWS_OF_PART", part)  # whether nodes are trained in parts
    monkeypatch.setattr(planning, "MANY_LABELS", many)  # whether nodes are dealt to tasks
    split, splits = planning.split_node, []
    monkeypatch.setattr(planning, "split_node", recorded(split, splits))
    monkeypatch.setattr(stored_rows, "PART_ROWS", 20)  # rows of a unit are in several parts, of which one is open
    monkeypatch.setattr(stored_rows, "KEPT_BYTES", 1)
    results = run(tmp_path, data)
    out = tmp_path / "runs" / "sample"
    X, scores = read_split(str(out / "tree"), "train")
    tree = LabelTree(n_trees=2, arity=2, max_leaf=4, seed=0).fit(X, scores.astype(bool).astype(np.float32))
    tree.save(str(tmp_path / "own.npz"))
    assert (out / "models" / "tree.npz").read_bytes() == (tmp_path / "own.npz").read_bytes()
    X_test, Y_test = read_xmc(str(data / "test.txt"))
    original = np.flatnonzero(np.asarray((read_xmc(str(data / "train.txt"))[1] > 0).sum(axis=0)).ravel())
    assert bool(splits) == (many == 1)
    assert evaluation._tree.cache_info().currsize == 0  # a large model is gone before all scores are measured
    found = tree.predict(X_test, k=3)
    wide = found.copy()
    wide.resize(found.shape[0], Y_test.shape[1])
    wide.indices = original[found.indices].astype(found.indices.dtype)
    expected = measure(wide, Y_test, k=3)
    (summary,) = summary_of(results, "evaluate")["models"]
    assert summary["name"] == "tree"
    np.testing.assert_allclose(summary["precision"], expected.precision, atol=1e-5)
    np.testing.assert_allclose(summary["ndcg"], expected.ndcg, atol=1e-5)
    (written,) = json.loads((out / "evaluation.json").read_text())["models"]
    np.testing.assert_allclose(written["metrics"]["precision"], expected.precision)
    assert written["propensity"] == {"a": 0.55, "b": 1.5}


@pytest.mark.parametrize("many", [1, planning.MANY_LABELS])
def test_label_vectors_come_from_the_embedding_where_there_is_one(tmp_path, data, monkeypatch, many):
    monkeypatch.setattr(planning, "MANY_LABELS", many)
    results = run(tmp_path, data, "embed.steps=2")
    assert summary_of(results, "train")["label_vectors"] == "embedding"
    tree = str(tmp_path / "runs" / "sample" / "tree")
    X, scores = read_split(tree, "train")
    own = LabelTree(n_trees=2, arity=2, max_leaf=4, seed=0).fit(
        X, scores.astype(bool).astype(np.float32), read_label_embedding(tree)
    )
    own.save(str(tmp_path / "own.npz"))
    assert (tmp_path / "runs" / "sample" / "models" / "tree.npz").read_bytes() == (tmp_path / "own.npz").read_bytes()
    rows = run(tmp_path, data, "embed.steps=2", "train.tree.label_vectors=rows")
    assert summary_of(rows, "train")["label_vectors"] == "rows"


def test_positives_may_count_by_their_scores(tmp_path, data):
    posteriors = "assign.method=discriminative"
    plain = run(tmp_path / "plain", data, posteriors, "train.tree.weighted=false")
    weighted = run(tmp_path / "weighted", data, posteriors, "train.tree.weighted=true")
    usual = run(tmp_path / "usual", data, posteriors)
    assert digests(plain)["emit"] == digests(weighted)["emit"] == digests(usual)["emit"]
    trained = [digests(results)["train"][1] for results in (plain, weighted, usual)]  # [0] is the key of the stage
    assert trained[0] != trained[1] == trained[2]
    tree = str(tmp_path / "usual" / "runs" / "sample" / "tree")
    assert read_about(tree)["label_scores"] == "posterior"
    assert read_about(tree)["candidates"] > 0
    groups = list(iterate_groups(tree, "train", soft=True))  # owners and candidates
    soft = to_matrix(concatenate([labels for _, _, _, labels in groups]), read_about(tree)["n_labels"])
    X, owners = read_split(tree, "train")
    assert soft.nnz == owners.nnz + read_about(tree)["candidates"]
    for results, labels, scores in (("usual", soft, soft), ("plain", owners, None)):
        own = LabelTree(n_trees=2, arity=2, max_leaf=4, seed=0).fit(X, matrix_with_ones(labels), label_scores=scores)
        own.save(str(tmp_path / "own.npz"))
        made = tmp_path / results / "runs" / "sample" / "models" / "tree.npz"
        assert made.read_bytes() == (tmp_path / "own.npz").read_bytes()
    similar = run(tmp_path / "similar", data, "assign.method=centred")  # similarities are no weights
    unweighted = run(tmp_path / "unweighted", data, "assign.method=centred", "train.tree.weighted=false")
    assert digests(similar)["train"][1] == digests(unweighted)["train"][1]


def test_workers_and_chunks_change_no_byte(tmp_path, data, monkeypatch, workers):
    reference = run(tmp_path / "one", data)
    monkeypatch.setattr(planning, "CHUNKS", 3)
    found = run(tmp_path / "many", data, cluster=workers(chunk_rows=7))
    assert digests(found)["train"] == digests(reference)["train"]
    assert digests(found)["evaluate"] == digests(reference)["evaluate"]
    assert bytes_below(tmp_path / "many" / "runs" / "sample") == bytes_below(tmp_path / "one" / "runs" / "sample")


def test_a_store_that_takes_no_pieces_of_files_gets_the_same_model(tmp_path, data, monkeypatch):
    reference = run(tmp_path / "pieces", data)
    monkeypatch.setattr(placing, "takes_pieces", lambda folder: False)
    whole = run(tmp_path / "whole", data)
    assert digests(whole)["train"] == digests(reference)["train"]
    steps = [
        {step["step"] for step in next(made for made in results["stages"] if made["stage"] == "train")["cost"]["steps"]}
        for results in (reference, whole)
    ]
    assert steps[0] - steps[1] == {"room", "weights"}


def test_a_model_that_is_made_again_leaves_the_one_of_before_alone(tmp_path, data):
    run(tmp_path, data)
    laid_out = tmp_path / "runs" / "sample" / "models" / "tree.npz"
    (stored,) = (tmp_path / "runs").glob(".store/train-*/tree_model/models/tree.npz")
    kept = tmp_path / "kept.npz"
    kept.hardlink_to(laid_out)  # as an older run's folder has it
    content, where = kept.read_bytes(), kept.stat().st_ino
    stored.unlink()
    stored.write_bytes(b"damaged")
    run(tmp_path, data)
    assert stored.read_bytes() == laid_out.read_bytes() == kept.read_bytes() == content
    assert stored.stat().st_ino != where


def test_killed_and_resumed(tmp_path, data):
    reference = run(tmp_path / "one", data)
    path = write_pipeline(tmp_path, data)
    settings = ("assign.method=centred", *SETTINGS)
    for moment in range(3):
        process = start_xpipe("run", path, *(word for text in settings for word in ("--set", text)))
        wait_for(lambda run=process: any((tmp_path / "runs").glob(".store/train-*")) or run.poll() is not None)
        time.sleep(random.Random(moment).uniform(0, 0.3))
        kill(process)
    again = run_pipeline(path, *settings)
    for stage in ("train", "evaluate"):
        assert digests(again)[stage] == digests(reference)[stage]


def test_a_split_that_is_not_there(tmp_path, data):
    with pytest.raises(ConfigError, match="no split 'dev' with labels"):
        run(tmp_path, data, "evaluate.split=dev")
