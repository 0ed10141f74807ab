"""A folder of files as one dataset: train, test and dev with features, labels, groups, names and filter pairs.

Holds no file formats and no guessing by content: `layout` recognises files by their names, `reading` says how each is
read. This module reads all rows in one go.
"""

from __future__ import annotations

import dataclasses
import logging

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.formats import reading
from xpipe.formats.fitting import filters_beside, fit_together, names_beside
from xpipe.formats.layout import Layout, recognise
from xpipe.formats.names import Names
from xpipe.formats.options import IndexBase, OnBadRow, ReadOptions
from xpipe.formats.source import Reject
from xpipe.formats.whole_files import WholeReader
from xpipe.ground import files
from xpipe.ground.sparse import to_matrix

__all__ = ["Dataset", "Layout", "Split", "read_dataset", "recognise"]

log = logging.getLogger("xpipe.formats")


@dataclasses.dataclass
class Split:
    """One split of a dataset.

    Attributes
    ----------
    X : csr_matrix
        Features, samples x features, float32.
    Y : csr_matrix, optional
        Labels, samples x labels, float32.
    Y1, Y2 : csr_matrix, optional
        Membership (samples x groups) and group labels (groups x labels), where the folder has both.
    groups : csr_matrix, optional
        Membership of group ids that come without labels of the groups.
    filter_labels : ndarray, optional
        int64 [n, 2]: pairs of row and label that metrics leave out.
    samples : ndarray
        int64 [n_samples]: the row of the file that each sample comes from.
    """

    X: sp.csr_matrix
    Y: sp.csr_matrix | None
    Y1: sp.csr_matrix | None
    Y2: sp.csr_matrix | None
    groups: sp.csr_matrix | None
    filter_labels: np.ndarray | None
    samples: np.ndarray


@dataclasses.dataclass
class Dataset:
    """What a folder holds.

    Attributes
    ----------
    train, test, dev : Split, optional
        The splits; None where there is none.
    label_names, feature_names : Names, optional
        Names in the order of the numbers, with the ids written before them.
    layout : Layout
        Which file is what; `layout.sentence` says it in words.
    synthetic : bool
        Whether this is a generated stand-in instead of real data.
    """

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


def read_dataset(
    folder: str,
    *,
    format: str | None = None,
    index_base: IndexBase = ReadOptions.index_base,
    label_base: IndexBase = ReadOptions.label_base,
    n_features: int | None = ReadOptions.n_features,
    n_labels: int | None = ReadOptions.n_labels,
    header: bool = ReadOptions.header,
    on_bad_row: OnBadRow = ReadOptions.on_bad_row,
    rejects: list[Reject] | None = None,
    split_base: IndexBase | None = ReadOptions.split_base,
    split_column: int = ReadOptions.split_column,
    names_encoding: str = "utf-8",
    threads: int | None = None,
) -> Dataset:
    """Recognise the dataset in a folder by its file names, and read all of it.

    The shape of every file is checked against the others. A row dropped from one file of a split is dropped from all.

    Parameters
    ----------
    folder : str
        A local path or an fsspec URL. `recognise` lists the file names that are looked for.
    format : str, optional
        Chooses where the folder holds datasets in several formats; see `recognise`.
    index_base, label_base : {0, 1}
        The number that text files give to the first feature and to the first label.
    n_features, n_labels : int, optional
        Sizes of text files without a header.
    header : bool
        Whether XMC text begins with the line `n_samples n_features n_labels`.
    on_bad_row : {"error", "drop"}
        Whether a row that cannot be read is an error, or is left out and added to `rejects`.
    rejects : list of Reject, optional
        Gets the rows that are dropped; needed with on_bad_row="drop".
    split_base : {0, 1}, optional
        The number that index split files give to the first row; needed where the folder has such files.
    split_column : int
        The column of the index split files to use, from 0.
    names_encoding : str
        The encoding of the files of names.
    threads : int, optional
        Threads that parse text; every core by default. Their number changes no result.

    Returns
    -------
    Dataset
        The splits there are, names of labels and features, and how the folder was recognised.

    Raises
    ------
    DataError
        Where no dataset or more than one is found, a file cannot be read, or files do not fit each other. The message
        names file, line and token.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> from xpipe.formats import read_dataset
    >>> folder = tempfile.TemporaryDirectory()
    >>> _ = pathlib.Path(folder.name, "train.txt").write_text("2 3 2\\n0,1 0:0.5 2:1\\n1 1:2\\n")
    >>> data = read_dataset(folder.name)
    >>> data.layout.format, data.train.X.shape, data.train.Y.toarray().tolist()
    ('xmc', (2, 3), [[1.0, 1.0], [0.0, 1.0]])
    >>> folder.cleanup()
    """
    layout = recognise(files.local(str(folder)), format=format)
    log.info(layout.sentence)
    reading.check_has_features(layout)
    if on_bad_row == "drop" and rejects is None:
        raise DataError("on_bad_row='drop' needs a list for what it drops", fix="rejects = []; pass rejects=rejects")
    options = ReadOptions(
        header=header,
        index_base=index_base,
        label_base=label_base,
        n_features=n_features,
        n_labels=n_labels,
        split_base=split_base,
        split_column=split_column,
        on_bad_row=on_bad_row,
    )
    reader = WholeReader(layout, options, threads)
    splits = {name: _read_split(reader, name) for name in layout.splits}
    if rejects is not None:
        rejects += reader.rejects
    names = names_beside(layout, fit_together(layout.folder, reader.sizes), names_encoding)
    if layout.format == "parquet":
        from xpipe.formats.emitted import emitted_names

        names |= emitted_names(layout.folder)
    return Dataset(
        train=splits.get("train"),
        test=splits.get("test"),
        dev=splits.get("dev"),
        label_names=names.get("labels"),
        feature_names=names.get("features"),
        layout=layout,
        synthetic=layout.synthetic,
    )


def _read_split(reader: WholeReader, name: str) -> Split:
    """Read all files of a split, and keep the rows that all of them have."""
    found = reader.read_split(name)
    fit_together(reader.layout.folder, [file.size for file in found.values()])
    of_groups = found.pop("group_labels", None)
    kept = reading.rows_in_all([file.rows for file in found.values()])
    matrices = {
        matrix: to_matrix(triple, file.size.widths[matrix])
        for file in found.values()
        for matrix, triple in reading.keep_rows(file.rows, kept).items()
    }
    group_labels = None
    if of_groups is not None:
        group_labels = to_matrix(of_groups.rows.matrices["group_labels"], of_groups.size.widths["group_labels"])
    grouped, membership = group_labels is not None, matrices.get("membership")
    first = next(iter(found.values()))  # the file with the features
    labels = matrices.get("labels", group_labels)
    assert labels is not None, "a split has labels of samples or of groups"
    filters = filters_beside(reader.layout.folder, reader.layout.splits[name], first.size.rows, labels.shape[1])
    return Split(
        X=matrices["features"],
        Y=matrices.get("labels"),
        Y1=membership if grouped else None,
        Y2=group_labels,
        groups=None if grouped else membership,
        filter_labels=None if filters is None else _renumber(filters, kept, first.size.rows),
        samples=kept if first.chosen is None else first.chosen[kept],
    )


def _renumber(pairs: np.ndarray, kept: np.ndarray, n_rows: int) -> np.ndarray:
    """The filter pairs of the rows kept, by the new numbers of these rows."""
    position = np.full(n_rows, -1)
    position[kept] = np.arange(len(kept))
    rows = position[pairs[:, 0]]
    kept_pairs: np.ndarray = np.column_stack([rows, pairs[:, 1]])[rows >= 0]
    return kept_pairs
