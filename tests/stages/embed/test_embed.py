"""Stage embed: label vectors that stage assign reads and stage emit writes, with any workers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.samples import bytes_below, digests, write_dataset
from tests.stages.small_chunks import SMALL_CHUNK, run_assign
from xpipe.eagle import embed
from xpipe.eagle.options import EmbedOptions
from xpipe.formats import read_xmc
from xpipe.formats.parquet import read_label_embedding
from xpipe.ground.sparse import normalise_rows, to_matrix, to_triple
from xpipe.grouping import random_groups
from xpipe.stages import label_chunks
from xpipe.stages.embed.stage import STAGE as EMBED
from xpipe.stages.embed.stage import EmbedParams


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(label_chunks, "CHUNK_ENTRIES", SMALL_CHUNK)


def test_embedded_labels_are_read_and_emitted(tmp_path, data):
    plain = run_assign(tmp_path / "plain", data, "eagle", "assign.steps=5")
    results = run_assign(tmp_path / "with", data, "eagle", "assign.steps=5", "embed.steps=5")
    stages_of = {stage["stage"]: stage["summary"] for stage in results["stages"]}
    assert len(stages_of["embed"]["objective"]) == 6
    assert np.all(np.diff(stages_of["embed"]["objective"]) > -1e-6)
    assert "objective" not in stages_of["assign"]  # it did not embed again
    assert digests(results)["assign"][1] == digests(plain)["assign"][1]
    X, Y = read_xmc(str(data / "train.txt"))
    X = to_matrix(normalise_rows(to_triple(X)), X.shape[1])
    E = embed(X, *random_groups(Y, 4, 0), steps=5)
    tree = str(tmp_path / "with" / "runs" / "sample" / "tree")
    vectors, kept = read_label_embedding(tree), np.flatnonzero(np.asarray((Y > 0).sum(axis=0)).ravel())
    assert (vectors != E[kept]).nnz == 0
    assert read_label_embedding(str(tmp_path / "plain" / "runs" / "sample" / "tree")) is None
    other = run_assign(tmp_path / "other", data, "eagle", "assign.steps=5", "embed.steps=2")
    assert digests(other)["assign"][1] == digests(plain)["assign"][1]  # of other steps, so not used


def test_workers_embed_the_same_bytes(tmp_path, data, workers):
    one = run_assign(tmp_path / "one", data, "eagle", "embed.method=eagle")
    many = run_assign(tmp_path / "many", data, "eagle", "embed.method=eagle", cluster=workers(chunk_rows=7))
    assert digests(one)["embed"] == digests(many)["embed"]
    assert bytes_below(tmp_path / "one" / "runs" / "sample") == bytes_below(tmp_path / "many" / "runs" / "sample")


def test_eagle0_takes_no_steps_and_depends_on_no_step_size():
    params = EmbedParams(method="eagle0", steps=7, step_size=0.5, smallest=1e-7)
    assert params.options() == EmbedOptions(steps=0, smallest=1e-7)
    assert EMBED.identity(params, {}, None) == {"smallest": 1e-7, "steps": 0}
    assert EmbedParams(steps=7, step_size=0.5).options() == EmbedOptions(7, 0.5)
    assert EmbedParams().options() == EmbedOptions()
