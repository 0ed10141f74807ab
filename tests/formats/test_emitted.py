"""An emitted dataset whose files are not those that its dataset.json names, and dataset.json of other shapes."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import mutations
from tests.formats.test_checking import run
from xpipe.errors import DataError
from xpipe.formats import read_dataset, read_sparse, write_sparse
from xpipe.formats.emitted import read_about, read_label_table
from xpipe.formats.parquet import read_samples, read_split, read_split_labels, row_groups, write_dataset_part
from xpipe.ground.sparse import to_triple

X, Y, _, _ = mutations.matrices().values()
PART = "split=train/part-00000.parquet"


@pytest.fixture
def folder(tmp_path):
    mutations.write_emitted(tmp_path / "d", X, Y)
    return tmp_path / "d"


def change(folder, edit) -> None:
    about = json.loads((folder / "dataset.json").read_text())
    edit(about)
    (folder / "dataset.json").write_text(json.dumps(about))


def rewrite_part(folder) -> None:
    """Other values in a part, whole as a file, with dataset.json as it was."""
    samples = np.arange(7)
    write_dataset_part(
        str(folder / PART), samples, to_triple(X[:7] * np.float32(2)), to_triple(Y[:7]),
        n_features=X.shape[1], n_labels=Y.shape[1], row_group=4,
    )  # fmt: skip


@pytest.mark.parametrize("read", [read_split, read_split_labels, read_samples, row_groups])
def test_a_part_changed_behind_its_digest_is_refused(folder, read):
    read(str(folder), "train")
    rewrite_part(folder)
    with pytest.raises(DataError, match=r"another digest than dataset\.json says"):
        read(str(folder), "train")


def test_a_changed_part_is_another_key_and_no_cached_run(tmp_path, folder):
    run(folder, tmp_path)
    rewrite_part(folder)
    with pytest.raises(DataError, match="another digest"):
        run(folder, tmp_path)


@pytest.mark.parametrize(
    "edit",
    [
        lambda about: about["splits"]["train"]["parts"][0].update(path="../../etc"),
        lambda about: about["splits"]["train"]["parts"][0].update(path="/etc/passwd"),
        lambda about: about["splits"]["train"]["parts"].append(about["splits"]["train"]["parts"][0]),
        lambda about: about["splits"]["train"]["parts"].pop(),
        lambda about: about["splits"]["train"]["parts"].reverse() or about["splits"]["train"].update(rows=3),
        lambda about: about["splits"]["train"]["parts"][0].pop("sha256"),
        lambda about: about["splits"].update(other=about["splits"]["train"]),
        lambda about: about.update(splits=[]),
        lambda about: about.update(splits={}),
        lambda about: about.update(n_features=-1),
        lambda about: about.update(n_features=10**12),
        lambda about: about.update(n_features="9"),
        lambda about: about.update(n_labels=4),
        lambda about: about.update(n_labels=None),
        lambda about: about.update(format="3"),
        lambda about: about.update(labels={"path": "../labels.parquet", "sha256": "0" * 64}),
    ],
)
def test_dataset_json_of_another_shape(folder, edit):
    change(folder, edit)
    with pytest.raises(DataError):
        read_dataset(str(folder))


def test_missing_and_unlisted_files(folder):
    (folder / "split=train/part-00009.parquet").write_bytes((folder / PART).read_bytes())
    with pytest.raises(DataError, match=r"a file that dataset\.json does not name"):
        read_split(str(folder))
    (folder / "split=train/part-00009.parquet").unlink()
    (folder / PART).unlink()
    with pytest.raises(DataError, match="a Parquet file is missing"):
        read_split(str(folder))


@pytest.mark.parametrize(
    "edit",
    [
        lambda table: table.drop(["frequency"]),
        lambda table: table.slice(1),
        lambda table: table.take(np.arange(table.num_rows)[::-1]),
        lambda table: table.set_column(3, "frequency", pa.array(["a"] * table.num_rows)),
        lambda table: table.set_column(3, "frequency", pa.array([None] * table.num_rows, pa.int64())),
        lambda table: table.set_column(3, "frequency", pa.array([-1] * table.num_rows, pa.int64())),
        lambda table: table.set_column(1, "original_label", pa.array([0] * table.num_rows, pa.int32())),
        lambda table: table.set_column(4, "inverse_propensity", pa.array([np.nan] * table.num_rows)),
        lambda table: table.append_column("frequency", table["frequency"]),
    ],
)
def test_labels_parquet_of_another_shape(folder, edit):
    path = folder / "labels.parquet"
    assert read_label_table(str(folder)).names[1] == "name 1"
    pq.write_table(edit(pq.read_table(path)), path)
    change(folder, lambda about: about.pop("labels"))
    with pytest.raises(DataError):
        read_label_table(str(folder))


def numbered(path, samples, kind=None) -> str:
    """The matrix X with other sample numbers."""
    write_sparse(str(path), X)
    table = pq.read_table(path)
    pq.write_table(table.set_column(0, "sample", pa.array(samples, kind or pa.int64())), path)
    return str(path)


def test_sample_numbers_put_rows_in_order(tmp_path):
    order = np.random.default_rng(0).permutation(X.shape[0])
    found = read_sparse(numbered(tmp_path / "X.parquet", order))
    np.testing.assert_array_equal(found.toarray()[order], X.toarray())


@pytest.mark.parametrize("samples", [[0, *range(11)], [*range(11), 12], [-1, *range(1, 12)], [None, *range(1, 12)]])
def test_sample_numbers_that_are_missing_or_twice(tmp_path, samples):
    with pytest.raises(DataError, match="sample"):
        read_sparse(numbered(tmp_path / "X.parquet", samples))


def test_widths_that_no_matrix_has(tmp_path):
    path = tmp_path / "X.parquet"
    write_sparse(str(path), X)
    for width in (b"9" * 5000, b"-1", b"", b"2147483648", b"abc"):
        pq.write_table(pq.read_table(path).replace_schema_metadata({b"n_columns": width}), path)
        with pytest.raises(DataError, match="without its number of columns"):
            read_sparse(str(path))


def test_a_part_says_what_dataset_json_says(folder):
    assert read_about(str(folder))["n_labels"] == Y.shape[1]
