"""What an evaluation needs from files: true labels with what is known about them, and scores.

Holds no format of its own but the Parquet of scores, which other tools write too; the rest is `xpipe.formats`.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.ground import files
from xpipe.ground.sparse import canonical
from xpipe.ground.sparse_rows import row_pointers


class Known(NamedTuple):
    """True labels of a split, and what else the files tell; None where they do not.

    labels, train_labels: rows x labels. frequency int64 [n_labels]: of each label in the training rows, where these are
    not at hand. inverse_propensity float64 [n_labels], made with the constants (A, B). filter_labels int64 [n, 2]:
    pairs of row and label that do not count.
    """

    labels: sp.csr_matrix
    train_labels: sp.csr_matrix | None = None
    frequency: np.ndarray | None = None
    inverse_propensity: np.ndarray | None = None
    constants: tuple[float, float] | None = None
    filter_labels: np.ndarray | None = None
    synthetic: bool = False


def read_truth(path: str, split: str = "test", **reading: Any) -> Known:
    """True labels from a dataset's folder (its `split`), or from one file of any format that `xpipe.formats` reads.

    A folder also gives training labels and filter pairs; an emitted dataset gives frequencies and propensities.
    reading: index_base, label_base, n_features and n_labels, for text. Raises DataError.
    """
    path = files.local(os.fspath(path))
    if not files.is_folder(path):
        from xpipe.formats.single_file import read_labels

        beside = files.join(files.parent(path), "SYNTHETIC.json")
        return Known(read_labels(path, **reading), synthetic=files.exists(beside))
    if files.exists(files.join(path, "dataset.json")):
        return _read_emitted(path, split)
    from xpipe.formats.dataset import read_dataset

    dataset = read_dataset(path, **reading)
    if split not in dataset.splits:
        raise DataError(
            f"no split {split!r} in {path}", why=f"it has {', '.join(dataset.splits)}", fix="name one of these"
        )
    wanted = dataset.splits[split]
    if wanted.Y is None:
        raise DataError(
            f"the {split} split has no labels of single samples", where=path, why="it has labels of groups",
            fix="evaluate against a split with labels of its own",
        )  # fmt: skip
    train = dataset.splits["train"].Y if "train" in dataset.splits else None
    return Known(wanted.Y, train, filter_labels=wanted.filter_labels, synthetic=dataset.synthetic)


def _read_emitted(folder: str, split: str) -> Known:
    """`read_truth` of an emitted dataset."""
    from xpipe.formats.emitted import read_about, read_label_table
    from xpipe.formats.parquet import read_split

    about = read_about(folder)
    _, labels = read_split(folder, split)
    table = read_label_table(folder)
    constants = about.get("propensity")
    return Known(
        labels,
        frequency=table.frequency,
        inverse_propensity=table.inverse_propensity if constants else None,
        constants=(constants["a"], constants["b"]) if constants else None,
        synthetic=bool(about.get("synthetic")),
    )


def read_scores(path: str, n_labels: int) -> sp.csr_matrix:
    """Scores, rows x labels, from `.npz` of scipy, `.parquet` with lists `indices` and `values`, or sparse text.

    A Parquet column `sample` numbers the rows and puts them in order. Raises DataError for scores that are not finite,
    labels that are repeated or out of range, and rows that are missing or repeated.
    """
    path = files.local(os.fspath(path))
    if path.endswith(".parquet"):
        return _read_parquet(path, n_labels)
    from xpipe.formats.sparse_text import read_sparse

    return read_sparse(path)


def _read_parquet(path: str, n_labels: int) -> sp.csr_matrix:
    import pyarrow as pa

    from xpipe.formats.parquet_files import declared_width, open_parquet, row_order, sample_numbers

    if not files.exists(path):
        raise DataError("there is no such file", where=path, fix="check the path; relative paths start where you are")
    with open_parquet(path, []) as parquet:
        schema = parquet.schema_arrow
        names = schema.names
        if not {"indices", "values"} <= set(names):
            raise DataError(
                "these are no scores",
                where=path,
                why=f"the columns are {', '.join(names)}",
                fix="one row per sample with the lists `indices` (labels) and `values` (scores)",
            )
        told = declared_width(schema, path, "n_columns") if b"n_columns" in (schema.metadata or {}) else n_labels
        if told != n_labels:
            raise DataError(
                f"scores are over {told:,} labels, true labels over {n_labels:,}",
                where=path,
                fix="predict with a model of the same dataset",
            )
        _check_lists(schema, path)
        table = parquet.read(columns=[name for name in ("sample", "indices", "values") if name in names])
        indices = table["indices"].cast(pa.large_list(pa.int64())).combine_chunks()
        values = table["values"].cast(pa.large_list(pa.float64())).combine_chunks()
    if any(array.null_count for part in (indices, values) for array in (part, part.flatten())):
        raise DataError("a null among the scores", where=path, fix="write empty lists for rows without predictions")
    lengths = np.diff(indices.offsets.to_numpy())
    uneven = np.flatnonzero(lengths != np.diff(values.offsets.to_numpy()))
    if len(uneven):
        raise DataError(
            "indices and values of a row have different lengths",
            where=f"{path}, row {int(uneven[0])}",
            fix="write one value for each index",
        )
    labels = indices.flatten().to_numpy()
    indptr = row_pointers(lengths)
    beyond = np.flatnonzero((labels < 0) | (labels >= n_labels))
    if len(beyond):
        raise DataError(
            f"scores name label {int(labels[beyond[0]])}, but labels are 0..{n_labels - 1}",
            where=f"{path}, row {int(np.searchsorted(indptr, beyond[0], side='right')) - 1}",
            fix="number labels as the true ones are numbered, from 0",
        )
    scores = sp.csr_matrix((values.flatten().to_numpy(), labels, indptr), shape=(len(lengths), n_labels))
    order = row_order(sample_numbers(table, path), path) if "sample" in names else None
    return canonical(scores if order is None else scores[order], path)


def _check_lists(schema: Any, path: str) -> None:
    """Raise DataError unless indices are lists of whole numbers and values lists of numbers."""
    import pyarrow as pa

    is_null = pa.types.is_null  # the type of empty lists, where the writer gave none
    kinds = {"indices": (pa.types.is_integer,), "values": (pa.types.is_integer, pa.types.is_floating)}
    for name, allowed in kinds.items():
        kind = schema.field(name).type
        if is_null(kind):
            continue
        listed = pa.types.is_list(kind) or pa.types.is_large_list(kind)
        if not listed or not any(is_kind(kind.value_type) for is_kind in (*allowed, is_null)):
            raise DataError(
                "indices and values cannot be read as lists of numbers", where=path, why=f"{name} is {kind}",
                fix="`indices` are lists of whole numbers, `values` lists of real numbers",
            )  # fmt: skip
