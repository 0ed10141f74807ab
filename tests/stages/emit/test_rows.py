"""Emitted rows: normalising, renumbering and the survey against plain Python; same bytes however units are grouped."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tests import oracles
from tests.strategies import csr_matrices, finite_float32, label_matrices
from xpipe.engine.messages import FileEntry, Unit, entry_of_file
from xpipe.engine.store import Store
from xpipe.errors import StageError
from xpipe.formats.parquet import write_dataset_part
from xpipe.formats.parts import write_part
from xpipe.ground import files
from xpipe.ground.seeding import permutation
from xpipe.ground.sparse import Triple, normalise_rows, to_triple
from xpipe.ground.sparse_rows import slice_rows
from xpipe.grouping import random_groups, spread_labels
from xpipe.stages.emit.facts import EmitFacts, EmitInputs, LabelSource
from xpipe.stages.emit.label_survey import FREQUENCY, label_map, renumber_labels, survey_labels
from xpipe.stages.emit.params import EmitParams
from xpipe.stages.emit.work import DatasetPart, emitted_rows, write_dataset_parts
from xpipe.stages.matrices import MatrixRef, part_path, write_matrix_part

PART_ROWS = 7


# ---------------------------------------------------------------- single functions


@given(csr_matrices(values=finite_float32))
def test_normalise_rows(matrix):
    found = normalise_rows(to_triple(matrix))
    assert found.values.dtype == np.float32
    for row, wanted in zip(oracles.rows_of(found), oracles.normalise_rows(matrix), strict=True):
        assert list(row) == list(wanted)
        np.testing.assert_allclose(list(row.values()), list(wanted.values()), rtol=1.3e-7, atol=1e-45)
    np.testing.assert_array_equal(found.indptr, matrix.indptr)


def test_rows_of_zeros_and_of_tiny_values():
    triple = Triple(np.array([0, 1, 1, 3]), np.array([0, 0, 1], np.int32), np.array([0, 1e-45, 0], np.float32))
    assert normalise_rows(triple).values.tolist() == [0, 1, 0]


@given(label_matrices(), st.data())
def test_renumber_labels(labels, data):
    n_labels = labels.shape[1]
    frequency = data.draw(st.lists(st.integers(0, 2), min_size=n_labels, max_size=n_labels))
    numbers = np.where(np.array(frequency) > 0, np.cumsum(np.array(frequency) > 0) - 1, -1).astype(np.int32)
    found = renumber_labels(to_triple(labels), numbers)
    assert [array.dtype for array in found] == [np.int64, np.int32, np.float32]
    wanted = oracles.renumber_labels(labels, frequency)
    assert oracles.rows_of(found) == wanted
    place = np.array(data.draw(st.permutations(range(numbers.max(initial=0) + 1))), dtype=np.int32)
    moved = renumber_labels(to_triple(labels), np.where(numbers >= 0, place[numbers], -1).astype(np.int32))
    assert oracles.rows_of(moved) == [{int(place[label]): value for label, value in row.items()} for row in wanted]
    rows = np.split(moved.indices, moved.indptr[1:-1])
    assert all((np.diff(row) > 0).all() for row in rows)


def test_label_map(tmp_path):
    np.save(tmp_path / "frequency.npy", np.array([3, 0, 1, 0, 0, 2]))
    files.write_bytes(str(tmp_path / FREQUENCY), (tmp_path / "frequency.npy").read_bytes())
    found = label_map(str(tmp_path))
    assert found.tolist() == [0, -1, 1, -1, -1, 2]
    assert found.dtype == np.int32


# ---------------------------------------------------------------- rows of a stored dataset


def random_rows(n_rows: int, n_features: int, n_labels: int, seed: int) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    rng = np.random.default_rng(seed)
    X = sp.random(n_rows, n_features, 0.3, "csr", np.float32, random_state=rng)
    Y = sp.random(n_rows, n_labels, 0.15, "csr", np.float32, random_state=rng)
    Y.data[:] = 1
    return X, Y


class Stored:
    """A store with features and labels of 40 training and 15 test rows, and what a worker is told about them."""

    def __init__(self, top: str, *, groups: bool = False, candidates: bool = False, rows_without_labels: str = "keep"):
        self.X, self.Y = {}, {}
        self.X["train"], self.Y["train"] = random_rows(40, 20, 12, 0)
        self.X["test"], self.Y["test"] = random_rows(15, 20, 12, 1)
        artifacts = Store(files.join(top, "store"))
        folder = artifacts.begin("read", "key")
        made = {}
        for name, matrices in (("features", self.X), ("labels", self.Y)):
            made[name] = self._write(folder, name, matrices)
        labels = MatrixRef(folder, "labels")
        self.train = self.Y["train"]
        source = LabelSource(labels, None, "none", "the labels as read")
        if groups:
            Y1, Y2 = random_groups(self.Y["train"], 3, 0)
            made["membership"] = self._write(folder, "membership", {"train": Y1})
            made["group_labels"] = self._write(folder, "group_labels", {"train": Y2})
            self.train = spread_labels(Y1, Y2)
            membership, group_labels = MatrixRef(folder, "membership"), MatrixRef(folder, "group_labels")
            source = LabelSource(membership, group_labels, "none", "every label of a sample's groups")
        if candidates:  # of pairs that are no labels; their labels are kept
            self.candidates = random_rows(40, 20, 12, 3)[1] * 0.25
            frequent = np.asarray(self.train.getnnz(axis=0)) > 0
            self.candidates = sp.csr_matrix(
                (self.candidates - self.candidates.multiply(self.train > 0)) @ sp.diags(frequent.astype(np.float32)),
                dtype=np.float32,
            )
            self.candidates.eliminate_zeros()
            self.candidates.sort_indices()
            made["candidates"] = self._write(folder, "candidates", {"train": self.candidates})
        artifacts.publish("read", "key", {}, made, {})
        self.folder = artifacts.begin("emit", "key")
        self.inputs = EmitInputs(
            features=MatrixRef(folder, "features"),
            train_labels=source,
            held_out_labels=labels,
            names=MatrixRef(folder, "names"),
            synthetic=False,
            n_features=20,
            n_labels=12,
            splits=("train", "test"),
            seed=5,
            params=EmitParams(rows_without_labels=rows_without_labels, row_group=3),
            candidates=MatrixRef(folder, "candidates") if candidates else None,
        )

    def _write(self, folder: str, name: str, matrices: dict) -> tuple[list[FileEntry], dict]:
        entries = []
        for split, matrix in matrices.items():
            n_rows, triple = matrix.shape[0], to_triple(matrix)
            for index, start in enumerate(range(0, n_rows, PART_ROWS)):
                stop = min(start + PART_ROWS, n_rows)
                rows = slice_rows(triple, start, stop)
                entries.append(write_matrix_part(folder, name, split, index, np.arange(start, stop) + 500, rows))
        return entries, {"n_columns": matrices["train"].shape[1]}

    def survey(self) -> EmitFacts:
        """What steps after the survey are told."""
        finished = survey_labels(self.folder, Unit("labels", 40), self.inputs)
        (entry,) = finished.files
        assert entry == entry_of_file(self.folder, FREQUENCY)
        return EmitFacts(self.inputs, finished.result)


KINDS = pytest.mark.parametrize(
    ("groups", "action"), [(False, "keep"), (True, "keep"), (False, "drop"), (True, "drop")]
)


@KINDS
def test_survey(tmp_path, groups, action):
    stored = Stored(str(tmp_path), groups=groups, rows_without_labels=action)
    found = stored.survey().survey
    frequency = oracles.frequencies(stored.train, 12)
    kept = {label for label, count in enumerate(frequency) if count}
    sizes = [len(row) for row in oracles.sets_of(stored.train)]
    held_out = oracles.sets_of(stored.Y["test"])
    empty = {"train": sizes.count(0), "test": sum(not row & kept for row in held_out)}
    assert 0 < empty["test"] < 15
    if not groups:
        assert empty["train"] > 0
    if action == "drop":
        sizes = [size for size in sizes if size]
    assert found.rows == {"train": len(sizes), "test": 15 - (empty["test"] if action == "drop" else 0)}
    assert found.labels_kept == len(kept)
    assert found.k == max(sizes)
    assert found.k_percentiles["100"] == max(sizes)
    assert found.k_percentiles["50"] == np.percentile(sizes, 50)
    assert found.labels_per_row == pytest.approx(sum(sizes) / len(sizes), abs=5e-5)
    assert found.filtered() == {
        "labels_without_positives": 12 - len(kept),
        "held_out_occurrences_of_these": {"test": sum(len(row - kept) for row in held_out)},
        "rows_without_labels": {"action": "dropped" if action == "drop" else "kept", **empty},
    }
    assert np.load(files.join(stored.folder, FREQUENCY)).tolist() == frequency


@KINDS
@pytest.mark.parametrize("split", ["train", "test"])
def test_emitted_rows(tmp_path, groups, action, split):
    stored = Stored(str(tmp_path), groups=groups, rows_without_labels=action)
    stored.survey()
    n_rows = stored.X[split].shape[0]
    rows = np.random.default_rng(2).integers(0, n_rows, 25)
    samples, features, labels, candidates = emitted_rows(stored.folder, stored.inputs, split, rows)
    wanted_labels = oracles.renumber_labels(
        stored.train if split == "train" else stored.Y["test"], oracles.frequencies(stored.train, 12)
    )
    wanted = [row for row in rows.tolist() if wanted_labels[row] or action == "keep"]
    assert samples.tolist() == [row + 500 for row in wanted]
    assert oracles.rows_of(features) == oracles.take_rows(stored.X[split], wanted)
    assert oracles.rows_of(labels) == [wanted_labels[row] for row in wanted]
    assert candidates is None


@pytest.mark.parametrize("action", ["keep", "drop"])
def test_candidates_are_renumbered_and_held_out_rows_have_none(tmp_path, action):
    stored = Stored(str(tmp_path), candidates=True, rows_without_labels=action)
    facts = stored.survey()
    assert facts.survey.candidates == stored.candidates.nnz > 0
    rows = np.random.default_rng(2).integers(0, 15, 25)
    frequency = oracles.frequencies(stored.train, 12)
    labels = {
        "train": oracles.renumber_labels(stored.train, frequency),
        "test": oracles.renumber_labels(stored.Y["test"], frequency),
    }
    likely = {"train": oracles.renumber_labels(stored.candidates, frequency), "test": [{}] * 15}
    for split in ("train", "test"):
        found = emitted_rows(stored.folder, stored.inputs, split, rows).candidates
        wanted = [row for row in rows.tolist() if labels[split][row] or action == "keep"]
        assert oracles.rows_of(found) == [likely[split][row] for row in wanted]
    for entry in write_all(stored, facts, 4).values():
        table = pq.ParquetFile(files.join(stored.folder, entry.path)).read()
        assert table.column_names[-2:] == ["candidates", "candidate_scores"]
        samples, listed = table["sample"].to_pylist(), table["candidates"].to_pylist()
        assert listed == [sorted(likely[entry.split][sample - 500]) for sample in samples]


def units_of(stored: Stored) -> list[DatasetPart]:
    units = []
    for dataset in ("tree", "heads"):
        for split in ("train", "test"):
            n_rows = stored.X[split].shape[0]
            for index, start in enumerate(range(0, n_rows, PART_ROWS)):
                rows = min(PART_ROWS, n_rows - start)
                units.append(DatasetPart(f"{dataset}-{split}-{index}", rows, dataset, split, index, start, rows))
    return units


def write_all(stored: Stored, facts: EmitFacts, chunk: int) -> dict[str, FileEntry]:
    units = units_of(stored)
    made = {}
    for start in range(0, len(units), chunk):
        for unit, finished in write_dataset_parts(stored.folder, units[start : start + chunk], facts):
            (entry,) = finished.files
            assert entry.sha256 == files.sha256(files.join(stored.folder, entry.path))
            made[unit.name] = entry
    assert len(made) == len(units)
    return made


@KINDS
def test_files_are_the_same_however_units_are_grouped(tmp_path, groups, action):
    stored = Stored(str(tmp_path), groups=groups, rows_without_labels=action)
    facts = stored.survey()
    made = write_all(stored, facts, 100)
    assert write_all(stored, facts, 1) == made
    assert write_all(stored, facts, 4) == made
    for dataset in ("tree", "heads"):
        for split in ("train", "test"):
            own = [entry for entry in made.values() if (entry.dataset, entry.split) == (dataset, split)]
            assert sum(entry.rows for entry in own) == facts.survey.rows[split]


@KINDS
def test_what_the_files_hold(tmp_path, groups, action):
    """tree/ is normalised and in order, heads/ is as read, its training rows in the order of the seed."""
    stored = Stored(str(tmp_path), groups=groups, rows_without_labels=action)
    facts = stored.survey()
    made = write_all(stored, facts, 100)
    for unit in units_of(stored):
        n_rows = stored.X[unit.split].shape[0]
        order = np.arange(n_rows)
        if unit.dataset == "heads" and unit.split == "train":
            order = permutation(n_rows, 5, "emit", "heads")
        rows = order[unit.start : unit.start + unit.rows]
        samples, features, labels, _ = emitted_rows(stored.folder, stored.inputs, unit.split, rows)
        if unit.dataset == "tree":
            features = normalise_rows(features)
        expected = write_dataset_part(
            str(tmp_path / "expected"), samples, features, labels, n_features=20, n_labels=facts.survey.labels_kept,
            row_group=3 if unit.dataset == "heads" else 65536,
        )  # fmt: skip
        path = f"datasets/{unit.dataset}/rows/split={unit.split}/part-{unit.index:05d}.parquet"
        assert made[unit.name] == FileEntry(path, dataset=unit.dataset, split=unit.split, **expected)


def test_labels_of_other_samples_are_refused(tmp_path):
    stored = Stored(str(tmp_path))
    stored.survey()
    path = files.join(stored.inputs.features.folder, part_path("labels", "train", 0))
    write_part(path, np.arange(PART_ROWS) + 501, to_triple(stored.Y["train"][:PART_ROWS]))
    with pytest.raises(StageError, match="not of the same samples"):
        emitted_rows(stored.folder, stored.inputs, "train", np.arange(10))
