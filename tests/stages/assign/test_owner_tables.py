"""owners/ of a run: every owner once, by name, in order, with the group that allows it; and trust beside it."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from tests.eagle.samples import planted
from tests.samples import bytes_below, random_matrices, run_pipeline, write_dataset, write_pipeline
from tests.stages.small_chunks import SMALL_CHUNK
from xpipe.formats import read_xmc, write_sparse, write_xmc
from xpipe.formats.owner_files import read_owners
from xpipe.formats.parquet import read_split
from xpipe.ground.sparse import to_triple
from xpipe.grouping import given_groups, random_groups
from xpipe.stages import label_chunks
from xpipe.stages.assign.owner_tables import OwnerFacts, group_of_owners, ids_of_samples
from xpipe.stages.matrices import MatrixRef


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("data"), n_train=120, n_test=5)


def owners_of(folder):
    return [row for piece in read_owners(str(folder / "runs" / "sample" / "owners")) for row in piece.to_pylist()]


def run(folder, data, method, *overrides, part_rows=32):
    path = write_pipeline(folder, data, part_rows=part_rows)
    settings = (f"assign.method={method}", "emit.formats=[parquet]", "emit.datasets=[tree]", *overrides)
    return run_pipeline(path, *settings)


def test_owners_are_the_assigned_labels_by_name(tmp_path, data, monkeypatch):
    monkeypatch.setattr(label_chunks, "CHUNK_ENTRIES", SMALL_CHUNK)
    results = run(tmp_path, data, "discriminative")
    found = owners_of(tmp_path)
    _, Y = read_xmc(str(data / "train.txt"))
    Y1, Y2 = random_groups(Y, 4, 0)
    tree = tmp_path / "runs" / "sample" / "tree"
    _, emitted = read_split(str(tree), "train")
    original = pq.ParquetFile(tree / "labels.parquet").read()["original_label"].to_numpy()
    rows, labels = emitted.nonzero()
    pairs = sorted(zip(rows.tolist(), original[labels].tolist(), strict=True))
    assert [(owner["row"], owner["label"]) for owner in found] == pairs
    for owner in found:
        assert owner["name"] == f"label {owner['label']}"
        assert owner["id"] is None
        assert Y1[owner["row"], int(owner["group"])]
        assert Y2[int(owner["group"]), owner["label"]]
        assert 0 < owner["chance"] <= 1
    trust = results["trust"]
    chances = sum(owner["chance"] for owner in found)
    assert trust["expected"]["precision"]["value"] == pytest.approx(chances / len(found), abs=1e-4)
    assert trust["true"]["f1"] == next(s for s in results["stages"] if s["stage"] == "assign")["summary"]["f1"]
    stored = json.loads((tmp_path / "runs" / "sample" / "results.json").read_text())
    assert stored["trust"] == trust
    assert results["outputs"]["owners"]["files"] == 4  # parts of 32 rows


def test_chunks_of_labels_change_no_byte(tmp_path, data, monkeypatch):
    run(tmp_path / "one", data, "discriminative")
    monkeypatch.setattr(label_chunks, "CHUNK_ENTRIES", SMALL_CHUNK)
    run(tmp_path / "many", data, "discriminative")
    one, many = (bytes_below(tmp_path / name / "runs" / "sample" / "owners") for name in ("one", "many"))
    assert one == many


@pytest.mark.parametrize("method", ["baseline", "centred"])
def test_a_method_without_chances_gets_them_from_a_trial(tmp_path, method):
    (tmp_path / "in").mkdir()
    X, Y = planted(500)
    write_xmc(str(tmp_path / "in" / "train.txt"), X, Y)
    results = run(tmp_path, tmp_path / "in", method, part_rows=200)
    chances, trust = [owner["chance"] for owner in owners_of(tmp_path)], results["trust"]
    assert np.mean(chances) == pytest.approx(trust["true"]["precision"], abs=0.06)
    assert (len(set(chances)) > 10) == (method == "centred")  # all pairs of the baseline look alike
    assert "some labels" in trust["why"]
    for name in ("precision", "recall", "f1"):
        assert trust["expected"][name]["value"] == pytest.approx(trust["true"][name], abs=0.06), name
        assert trust["expected"][name]["low"] < trust["expected"][name]["high"]
    if method == "baseline":
        assert trust["expected"]["recall"]["value"] == 1.0


def test_where_nothing_tells_members_apart_nothing_is_known(tmp_path):
    (tmp_path / "in").mkdir()
    X, Y = random_matrices(60)
    write_xmc(str(tmp_path / "in" / "train.txt"), X, Y)
    results = run(tmp_path, tmp_path / "in", "baseline")
    assert results["trust"]["expected"] is None
    assert "not known" in results["trust"]["why"]
    assert results["trust"]["true"]["recall"] == 1.0


def test_groups_of_ones_own_data_have_no_true_figures(tmp_path, data):
    X, Y = read_xmc(str(data / "train.txt"))
    folder = tmp_path / "in"
    folder.mkdir()
    Y1, Y2 = random_groups(Y, 4, seed=7)
    for name, matrix in (("X", X), ("Y1", Y1), ("Y2", Y2)):
        write_sparse(str(folder / f"{name}.trn.npz"), matrix)
    results = run(tmp_path, folder, "discriminative", "group=null")
    assert results["trust"]["true"] is None
    assert results["trust"]["expected"] is not None
    found = owners_of(tmp_path)
    assert {owner["name"] for owner in found} == {None}  # no labels.txt beside these


def test_the_group_of_an_owner_is_the_first_that_has_the_label():
    rng = np.random.default_rng(0)
    Y = sp.csr_matrix((rng.random((40, 6)) < 0.3).astype(np.float32))
    membership = sp.csr_matrix((rng.random((40, 9)) < 0.25).astype(np.float32))
    Y1, Y2 = given_groups(membership, Y)
    allowed = ((Y1 @ Y2) > 0).toarray()
    owned = sp.csr_matrix((allowed & (rng.random(allowed.shape) < 0.5)).astype(np.float32))
    found = group_of_owners(to_triple(sp.csr_matrix(Y1)), sp.csr_matrix(Y2), to_triple(owned))
    rows, labels = owned.nonzero()
    dense, listed = Y1.toarray() > 0, Y2.toarray() > 0
    expected = [next(g for g in range(9) if dense[row, g] and listed[g, label])
                for row, label in zip(rows, labels, strict=True)]  # fmt: skip
    assert found.tolist() == expected
    assert len(expected) > 30


def test_ids_of_a_part_come_from_the_artifact_ids(tmp_path):
    path = tmp_path / "ids" / "split=train" / "part-00001.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"sample": [8, 9], "id": ["sku-8", "sku-9"]}), path)
    nowhere = MatrixRef("", "")
    facts = OwnerFacts(nowhere, nowhere, None, MatrixRef(str(tmp_path), "ids"), (), False, 3)
    assert ids_of_samples(facts, 1).to_pylist() == ["sku-8", "sku-9"]
    pq.write_table(pa.table({"sample": [8, 9]}), path)
    assert ids_of_samples(facts, 1) is None
    assert ids_of_samples(OwnerFacts(nowhere, nowhere, None, None, (), False, 3), 1) is None
