"""A folder of files as one dataset: train, test and dev with features, labels, groups, names and filter pairs.

Holds no file formats and no guessing by content: `layout` tells the files by their names, and says what it found.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe import files
from xpipe.errors import DataError
from xpipe.formats.layout import Layout, SplitFiles, recognise
from xpipe.formats.names import Names, is_id_list, read_filter_labels, read_group_ids, read_index_split, read_names
from xpipe.formats.source import Reject
from xpipe.sparse import check_shapes, to_matrix

__all__ = ["Dataset", "Layout", "Split", "read_dataset", "recognise"]

log = logging.getLogger("xpipe.formats")


@dataclasses.dataclass
class Split:
    """One split. X: samples x features; Y: samples x labels; Y1, Y2: membership and group_labels, where given."""

    X: sp.csr_matrix
    Y: sp.csr_matrix | None
    Y1: sp.csr_matrix | None
    Y2: sp.csr_matrix | None
    groups: sp.csr_matrix | None  # membership of group ids that come without labels of their own
    filter_labels: np.ndarray | None  # int64 [n, 2]: pairs of row and label that metrics leave out
    samples: np.ndarray  # int64: row of the file each sample comes from


@dataclasses.dataclass
class Dataset:
    """What a folder holds; `layout.sentence` says how it was recognised."""

    train: Split | None
    test: Split | None
    dev: Split | None
    label_names: Names | None
    feature_names: Names | None
    layout: Layout
    synthetic: bool

    @property
    def splits(self) -> dict[str, Split]:
        """The splits there are, by name."""
        named = {"train": self.train, "test": self.test, "dev": self.dev}
        return {name: split for name, split in named.items() if split is not None}


class _Piece(NamedTuple):
    """A matrix of a split: the rows kept, their numbers in the file, and how many the file has."""

    matrix: sp.csr_matrix
    samples: np.ndarray
    n_rows: int


def read_dataset(
    folder: str,
    *,
    format: str | None = None,
    index_base: int = 0,
    label_base: int = 0,
    n_features: int | None = None,
    n_labels: int | None = None,
    header: bool = True,
    on_bad_row: str = "error",
    rejects: list[Reject] | None = None,
    split_base: int | None = None,
    split_column: int = 0,
    names_encoding: str = "utf-8",
    threads: int | None = None,
) -> Dataset:
    """Recognise a folder and read all of it; every shape is checked against every other.

    format chooses where the folder holds several (a key of layout.FORMATS). index_base, label_base, n_features,
    n_labels, header, on_bad_row, rejects, threads: as in read_xmc; a row dropped from one file of a split is dropped
    from all. split_base and split_column: `base` and `column` of read_index_split, for NAME_data.txt with its splits.
    """
    layout = recognise(folder, format=format)
    log.info(layout.sentence)
    if on_bad_row == "drop" and rejects is None:
        raise DataError("on_bad_row='drop' needs a list for what it drops", fix="rejects = []; pass rejects=rejects")
    options: dict[str, Any] = {
        "index_base": index_base,
        "label_base": label_base,
        "n_features": n_features,
        "n_labels": n_labels,
        "header": header,
        "drop": on_bad_row == "drop",
        "rejects": rejects,
        "split_base": split_base,
        "split_column": split_column,
        "threads": threads,
    }
    splits = {name: _read_split(layout, name, split, options) for name, split in layout.splits.items()}
    _check_widths(layout, splits)
    names: dict[str, Names | None] = {}
    some = next(iter(splits.values()))
    labels = some.Y if some.Y is not None else some.Y2
    widths = {"label_names": None if labels is None else labels.shape[1], "feature_names": some.X.shape[1]}
    for role, width in widths.items():
        name = getattr(layout, role)
        path = files.join(layout.folder, name or "")
        names[role] = read_names(path, count=width, encoding=names_encoding) if name else None
    return Dataset(
        train=splits.get("train"),
        test=splits.get("test"),
        dev=splits.get("dev"),
        label_names=names["label_names"],
        feature_names=names["feature_names"],
        layout=layout,
        synthetic=layout.synthetic,
    )


def _read_split(layout: Layout, name: str, split: SplitFiles, options: dict[str, Any]) -> Split:
    def path(file_name: str) -> str:
        return files.join(layout.folder, file_name)

    if layout.format == "parquet":
        from xpipe.formats.parquet import read_split

        X, Y = read_split(layout.folder, name)
        return Split(X, Y, None, None, None, None, np.arange(X.shape[0]))
    labels: _Piece | None
    if split.samples is not None:
        features, labels = _read_samples(path(split.samples), layout.format, options)
    else:
        features = _read_matrix(path(str(split.features)), options, options["index_base"])
        labels = _read_matrix(path(split.labels), options, options["label_base"]) if split.labels else None
    group_labels = membership = groups = None
    if split.group_labels:  # a group left out would renumber the others: a bad row here is always an error
        strict = {**options, "drop": False}
        group_labels = _read_matrix(path(split.group_labels), strict, options["label_base"]).matrix
    ids = split.group_ids
    if split.membership and is_id_list(path(split.membership)):
        ids = split.membership
    elif split.membership:
        membership, ids = _read_matrix(path(split.membership), options, 0), None
    if ids:
        n_groups = None if group_labels is None else group_labels.shape[0]
        read = read_group_ids(path(ids), n_rows=features.n_rows, n_groups=n_groups)
        piece = _Piece(read, np.arange(read.shape[0]), read.shape[0])
        membership, groups = (piece, None) if group_labels is not None else (None, piece)
    pieces = {"Y": labels, "Y1": membership, "groups": groups}
    for what, other in pieces.items():
        if other is not None and other.n_rows != features.n_rows:
            raise DataError(
                "the files do not fit each other",
                where=f"{layout.folder}, split {name}",
                why=f"features have {features.n_rows:,} rows, {what} {other.n_rows:,}",
                fix="X, Y and Y1 have one row a sample",
            )
    kept = features.samples
    for other in pieces.values():
        if other is not None:
            kept = np.intersect1d(kept, other.samples, assume_unique=True)
    if split.rows:
        chosen = _chosen_rows(path(split.rows), features.n_rows, options)
        kept = chosen[np.isin(chosen, kept)]
    matrices = {what: _at(other, kept) for what, other in pieces.items()}
    X = _at(features, kept)
    assert X is not None
    Y, Y1 = matrices["Y"], matrices["Y1"]
    check_shapes(X, Y=Y, Y1=Y1, Y2=group_labels)
    filters = None
    if split.filter_labels:
        width = Y.shape[1] if Y is not None else None
        filters = _renumber(read_filter_labels(path(split.filter_labels), n_rows=features.n_rows, n_labels=width), kept)
    return Split(X, Y, Y1, group_labels, matrices["groups"], filters, kept)


def _read_samples(path: str, form: str, options: dict[str, Any]) -> tuple[_Piece, _Piece]:
    from xpipe.formats.text import open_text

    sizes = {key: options[key] for key in ("n_features", "n_labels", "index_base", "label_base")}
    kind = "svmlight" if form == "svmlight" else "xmc"
    source = open_text(path, kind, header=kind == "xmc" and options["header"], **sizes)
    rows, n_rows = _parse(source, options)
    return (
        _Piece(to_matrix(rows.features, source.n_features), rows.samples, n_rows),
        _Piece(to_matrix(rows.labels, source.n_labels), rows.samples, n_rows),
    )


def _read_matrix(path: str, options: dict[str, Any], base: int) -> _Piece:
    if path.endswith((".npz", ".parquet")):
        from xpipe.formats.sparse_text import read_sparse

        matrix = read_sparse(path)
        return _Piece(matrix, np.arange(matrix.shape[0]), matrix.shape[0])
    from xpipe.formats.text import open_text

    source = open_text(path, "sparse", header=True, index_base=base)
    rows, n_rows = _parse(source, options)
    return _Piece(to_matrix(rows.features, source.n_features), rows.samples, n_rows)


def _parse(source, options: dict[str, Any]):
    from xpipe.formats.xmc_text import read_rows

    on_bad_row = "drop" if options["drop"] else "error"
    rows = read_rows(source, on_bad_row=on_bad_row, rejects=options["rejects"], threads=options["threads"])
    return rows, len(rows.samples) + len(rows.rejects)


def _chosen_rows(path: str, n_rows: int, options: dict[str, Any]) -> np.ndarray:
    if options["split_base"] is None:
        raise DataError(
            "split_base must be given",
            where=path,
            why="whether the file counts from 0 or from 1 is never guessed",
            fix="split_base=1 for files of the XMC repository",
        )
    return read_index_split(path, base=options["split_base"], column=options["split_column"], n_rows=n_rows)


def _at(piece: _Piece | None, kept: np.ndarray) -> sp.csr_matrix | None:
    """The rows of a piece that come from the file's rows `kept`."""
    if piece is None or np.array_equal(piece.samples, kept):
        return None if piece is None else piece.matrix
    return sp.csr_matrix(piece.matrix[np.searchsorted(piece.samples, kept)])


def _renumber(pairs: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Pairs of the rows kept, by their new numbers."""
    if np.array_equal(kept, np.arange(len(kept))):
        inside = pairs[:, 0] < len(kept)
        return pairs[inside]
    position = np.full(max(int(kept.max(initial=-1)), int(pairs[:, 0].max(initial=-1))) + 1, -1)
    position[kept] = np.arange(len(kept))
    rows = position[pairs[:, 0]]
    return np.column_stack([rows, pairs[:, 1]])[rows >= 0]


def _check_widths(layout: Layout, splits: dict[str, Split]) -> None:
    for what, name in (("X", "features"), ("Y", "labels"), ("Y2", "labels")):
        matrices = {split: getattr(value, what) for split, value in splits.items()}
        widths = {split: matrix.shape[1] for split, matrix in matrices.items() if matrix is not None}
        if len(set(widths.values())) > 1:
            raise DataError(
                f"the splits do not have the same number of {name}",
                where=layout.folder,
                why=", ".join(f"{split} has {width:,}" for split, width in widths.items()),
                fix="correct the headers: all splits must count the same features and labels",
            )
