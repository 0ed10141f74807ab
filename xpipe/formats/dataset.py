"""A folder of files as one dataset: train, test and dev with features, labels, groups, names and filter pairs.

Holds no file formats and no guessing by content: `layout` tells the files by their names, and says what it found.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.formats.fitting import filters_beside, fit_together, index_base_of, is_group_ids, names_beside
from xpipe.formats.layout import Layout, SplitFiles, recognise
from xpipe.formats.names import Names, read_group_ids, read_index_split
from xpipe.formats.source import Reject
from xpipe.ground import files
from xpipe.ground.sparse import to_matrix

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
    folder = files.local(str(folder))
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
    facts: dict[str, dict] = {}
    splits = {name: _read_split(layout, name, split, options, facts) for name, split in layout.splits.items()}
    shape = fit_together(layout.folder, facts)
    names = names_beside(layout.folder, layout, shape, names_encoding)
    if layout.format == "parquet":
        names |= _emitted_names(layout.folder)
    return Dataset(
        train=splits.get("train"),
        test=splits.get("test"),
        dev=splits.get("dev"),
        label_names=names.get("labels"),
        feature_names=names.get("features"),
        layout=layout,
        synthetic=layout.synthetic,
    )


def _read_split(layout: Layout, name: str, split: SplitFiles, options: dict[str, Any], facts: dict[str, dict]) -> Split:
    """One split; `facts` get what `fit_together` needs of each of its files."""

    def path(file_name: str) -> str:
        return files.join(layout.folder, file_name)

    def fact(role: str, piece: _Piece, **more: Any) -> None:
        facts[f"{name}-{role}"] = {"rows": piece.n_rows, "columns": piece.matrix.shape[1], **more}

    if layout.format == "parquet":
        from xpipe.formats.parquet import read_split

        X, Y = read_split(layout.folder, name)
        facts[f"{name}-emitted"] = {"rows": X.shape[0], "columns": X.shape[1], "labels": Y.shape[1]}
        return Split(X, Y, None, None, None, None, np.arange(X.shape[0]))
    chosen = None
    labels: _Piece | None = None
    if split.samples is not None:
        features, labels = _read_samples(path(split.samples), layout.format, options)
        if split.rows:
            chosen = _chosen_rows(path(split.rows), features.n_rows, options)
            features, labels = _choose(features, chosen), _choose(labels, chosen)
        fact("samples", features, labels=labels.matrix.shape[1])
    else:
        features = _read_matrix(path(str(split.features)), options, "features")
        fact("features", features)
    if split.labels:
        labels = _read_matrix(path(split.labels), options, "labels")
        fact("labels", labels)
    group_labels = None
    if split.group_labels:  # a group left out would renumber the others: a bad row here is always an error
        group_piece = _read_matrix(path(split.group_labels), {**options, "drop": False}, "group_labels")
        fact("group_labels", group_piece)
        group_labels = group_piece.matrix
    groups, role = None, "membership" if split.membership else "group_ids"
    file_of_groups = split.membership or split.group_ids
    if file_of_groups and is_group_ids(role, path(file_of_groups)):
        n_groups = None if group_labels is None else group_labels.shape[0]
        read = read_group_ids(path(file_of_groups), n_rows=features.n_rows, n_groups=n_groups)
        groups = _Piece(read, np.arange(read.shape[0]), read.shape[0])
        fact(role, groups, mode="ids")
    elif file_of_groups:
        groups = _read_matrix(path(file_of_groups), options, role)
        fact(role, groups)
    fit_together(layout.folder, {unit: found for unit, found in facts.items() if unit.startswith(name + "-")})
    kept = features.samples
    for other in (labels, groups):
        if other is not None:
            kept = np.intersect1d(kept, other.samples, assume_unique=True)
    X, Y, membership = _at(features, kept), _at(labels, kept), _at(groups, kept)
    assert X is not None
    n_labels = next(matrix.shape[1] for matrix in (Y, group_labels) if matrix is not None)
    filters = filters_beside(layout.folder, split, features.n_rows, n_labels)
    return Split(
        X,
        Y,
        membership if group_labels is not None else None,
        group_labels,
        membership if group_labels is None else None,
        None if filters is None else _renumber(filters, kept),
        kept if chosen is None else chosen[kept],
    )


def _emitted_names(folder: str) -> dict[str, Names]:
    """Names of an emitted dataset's labels, with the numbers they had before, where those differ."""
    from xpipe.formats.emitted import read_about, read_label_table

    if "labels" not in read_about(folder):
        return {}
    table = read_label_table(folder)
    renumbered = not np.array_equal(table.original, np.arange(len(table.original)))
    if table.names is None and not renumbered:
        return {}
    given = table.names or [None] * len(table.original)
    names = [f"label {old}" if name is None else name for name, old in zip(given, table.original.tolist(), strict=True)]
    return {"labels": Names(names, [str(old) for old in table.original.tolist()] if renumbered else None)}


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


def _read_matrix(path: str, options: dict[str, Any], role: str) -> _Piece:
    if path.endswith((".npz", ".parquet")):
        from xpipe.formats.sparse_text import read_sparse

        matrix = read_sparse(path)
        return _Piece(matrix, np.arange(matrix.shape[0]), matrix.shape[0])
    from xpipe.formats.text import open_text

    base = index_base_of(role, options["index_base"], options["label_base"])
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


def _choose(piece: _Piece, chosen: np.ndarray) -> _Piece:
    """The rows an index split names, numbered by their place in it; dropped ones are missing."""
    there = np.isin(chosen, piece.samples)
    rows = np.searchsorted(piece.samples, chosen[there])
    return _Piece(sp.csr_matrix(piece.matrix[rows]), np.flatnonzero(there), len(chosen))


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
