"""How rows of files are reached, chosen and kept: the pieces that `read_dataset` and stage read share."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tests import mutations
from xpipe.errors import DataError
from xpipe.formats.layout import recognise
from xpipe.formats.options import ReadOptions
from xpipe.formats.reading import (
    FileRows,
    InputFile,
    access_of,
    choose_rows,
    files_by_role,
    files_with_rows,
    keep_rows,
    load_matrices,
    on_bad_row_of,
    read_chosen_rows,
    rows_in_all,
    rows_of_matrices,
)
from xpipe.formats.source import Reject
from xpipe.ground.sparse import to_matrix


def numbered(samples: list[int], rejects: tuple[int, ...] = ()) -> FileRows:
    """Rows whose only value is their number plus one."""
    matrix = sp.csr_matrix(np.array([[sample + 1] for sample in samples], dtype=np.float32).reshape(-1, 1))
    rows = rows_of_matrices({"features": matrix}, 0, len(samples))
    return rows._replace(samples=np.array(samples), rejects=[Reject(row, row + 2, "x", "", "") for row in rejects])


def values(rows: FileRows) -> list[float]:
    return to_matrix(rows.matrices["features"], 1).toarray().ravel().tolist()


def test_chosen_rows_are_numbered_by_their_place():
    found = choose_rows(numbered([0, 1, 3, 4], rejects=(2, 5)), np.array([4, 2, 0]), first=10)
    assert values(found) == [5, 1]
    assert found.samples.tolist() == [10, 12]
    assert [reject.row for reject in found.rejects] == [2]


@pytest.mark.parametrize("samples", [[], [7]])
def test_chosen_rows_that_were_all_dropped(samples):
    found = choose_rows(numbered(samples), np.array([0, 1, 9]))
    assert values(found) == []
    assert found.samples.tolist() == []
    assert choose_rows(numbered(samples), np.zeros(0, np.int64)).samples.tolist() == []


def test_rows_that_every_file_has():
    files = [numbered([0, 1, 2, 4]), numbered([1, 2, 3, 4]), numbered([0, 1, 4])]
    kept = rows_in_all(files)
    assert kept.tolist() == [1, 4]
    for rows in files:
        assert to_matrix(keep_rows(rows, kept)["features"], 1).toarray().ravel().tolist() == [2, 5]
    assert rows_in_all(files[:1]).tolist() == [0, 1, 2, 4]


@pytest.mark.parametrize(
    ("kind", "accesses"),
    [
        ("xmc", {"train-samples": "text", "train-group_ids": "ids", "test-samples": "text"}),
        ("grouped", {"train-features": "text", "train-membership": "text", "train-group_labels": "text"}),
        ("npz", {"train-features": "matrix", "train-labels": "matrix"}),
        ("emitted", {"train-emitted": "emitted"}),
    ],
)
def test_how_files_are_reached(tmp_path, kind, accesses):
    mutations.write_folder(kind, tmp_path)
    layout = recognise(str(tmp_path))
    assert {file.name: access_of(file) for file in files_with_rows(layout)} == accesses
    names = {file.name for file in files_by_role(layout)} - set(accesses)
    expected = {"all-label_names", "all-feature_names", "test-filter_labels"} if kind == "xmc" else set()
    assert names == expected


def test_a_list_of_ids_is_loaded_within_its_limits(write):
    file = InputFile("train", "membership", write("0\n1\n"))
    assert access_of(file) == "ids"
    assert load_matrices(file, "ids")["membership"].shape == (2, 2)
    assert load_matrices(file, "ids", n_rows=2, n_groups=5)["membership"].shape == (2, 5)
    with pytest.raises(DataError, match="2 group ids for 3"):
        load_matrices(file, "ids", n_rows=3)


def test_a_bad_group_is_always_an_error():
    options = ReadOptions(on_bad_row="drop")
    assert on_bad_row_of(InputFile("train", "group_labels", "x"), options) == "error"
    assert on_bad_row_of(InputFile("train", "membership", "x"), options) == "drop"


def test_the_base_of_an_index_split_is_never_guessed(write):
    file = InputFile("train", "samples", "x", "xmc", chosen=write("2 0\n1 1\n"))
    assert read_chosen_rows(file, ReadOptions(split_base=1), 2).tolist() == [1, 0]
    assert read_chosen_rows(file, ReadOptions(split_base=0, split_column=1), 2).tolist() == [0, 1]
    with pytest.raises(DataError, match="split_base must be given"):
        read_chosen_rows(file, ReadOptions(), 2)
