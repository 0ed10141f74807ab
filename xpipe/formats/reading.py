"""How the files of a dataset are read: which file gives which matrices, how its rows are reached, which rows are kept.

Holds no order of work: `dataset` reads all rows of a file in one go, stage read reads ranges of rows at workers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.formats.file_names import RAW
from xpipe.formats.fitting import FileSize
from xpipe.formats.group_files import is_id_list, read_group_ids
from xpipe.formats.layout import Layout
from xpipe.formats.matrix_formats import matrix_format_of
from xpipe.formats.options import ReadOptions
from xpipe.formats.row_numbers import read_index_split
from xpipe.formats.source import Reject, Rows, TextSource
from xpipe.formats.text import open_text
from xpipe.ground import files
from xpipe.ground.sparse import Triple, to_triple
from xpipe.ground.sparse_rows import slice_rows, take_rows

Access = Literal["text", "matrix", "ids", "emitted"]  # how the rows of a file are reached; only text has byte ranges
WITH_ROWS = ("samples", "features", "labels", "membership", "group_labels", "group_ids", "emitted")
ALL_SPLITS = "all"  # the split of files that belong to every split


@dataclass(frozen=True)
class InputFile:
    """One file of a dataset, and what it is for.

    Attributes
    ----------
    split : str
        train, test or dev; ALL_SPLITS for the files of names.
    role : str
        A field of `SplitFiles` (samples, features, ...), `label_names` or `feature_names`; "emitted" stands for a split
        of an emitted dataset, whose folder is `path`.
    path : str
        Where it lies.
    text_kind : str
        Which text it holds where it holds text: a key of `source.KINDS`.
    chosen : str, optional
        The index split file that names the rows of this file which belong to the split.
    """

    split: str
    role: str
    path: str
    text_kind: str = "sparse"
    chosen: str | None = None

    @property
    def name(self) -> str:
        return f"{self.split}-{self.role}"


class FileRows(NamedTuple):
    """Some rows of one file.

    matrices: CSR arrays by name (features, labels, membership, group_labels). samples: int64, the number of each row in
    its split. rejects: rows that cannot be read and are left out.
    """

    matrices: dict[str, Triple]
    samples: np.ndarray
    rejects: list[Reject]


def files_by_role(layout: Layout) -> list[InputFile]:
    """Every file of a dataset: files of names, then the files of each split. An emitted split counts as one file."""
    names = (("label_names", layout.label_names), ("feature_names", layout.feature_names))
    found = [InputFile(ALL_SPLITS, role, files.join(layout.folder, name)) for role, name in names if name]
    for split, split_files in layout.splits.items():
        if layout.format == "parquet":
            found.append(InputFile(split, "emitted", layout.folder))
            continue
        for role, name in vars(split_files).items():
            if not name:
                continue
            file = InputFile(split, role, files.join(layout.folder, name))
            if role == "samples":  # other files of an index split have the rows of the split only
                chosen = files.join(layout.folder, split_files.rows) if split_files.rows else None
                file = InputFile(split, role, file.path, layout.format, chosen)
            found.append(file)
    return found


def check_has_features(layout: Layout) -> None:
    """Raise DataError for a folder of texts, which has features only once they are vectorised."""
    if layout.format == RAW:
        raise DataError(
            "the folder holds texts, not features", where=layout.folder, why=layout.sentence,
            fix="read it by a pipeline with the section `vectorize`",
        )  # fmt: skip


def files_with_rows(layout: Layout) -> list[InputFile]:
    """The files of a dataset that hold matrices."""
    return [file for file in files_by_role(layout) if file.role in WITH_ROWS]


def access_of(file: InputFile) -> Access:
    """How the rows of a file are reached. The first line of a membership text tells a matrix from a list of ids."""
    if file.role == "emitted":
        return "emitted"
    if file.role == "group_ids" or (file.role == "membership" and is_id_list(file.path)):
        return "ids"
    return "text" if matrix_format_of(file.path) is None else "matrix"


def matrix_name(file: InputFile) -> str:
    """The name of the matrix in a file that holds one."""
    return "membership" if file.role == "group_ids" else file.role


def load_matrices(
    file: InputFile, access: Access, *, n_rows: int | None = None, n_groups: int | None = None
) -> dict[str, sp.csr_matrix]:
    """The matrices, by name, of a file that has no byte ranges. n_rows, n_groups: limits of a list of group ids."""
    if access == "emitted":
        from xpipe.formats.parquet import read_split

        features, labels = read_split(file.path, file.split)
        return {"features": features, "labels": labels}
    if access == "ids":
        return {"membership": read_group_ids(file.path, n_rows=n_rows, n_groups=n_groups)}
    form = matrix_format_of(file.path)
    assert form is not None, "text is opened, not loaded"
    return {matrix_name(file): form.read(file.path)}


def open_source(file: InputFile, options: ReadOptions) -> TextSource:
    """A text file as its header and the options describe it."""
    if file.text_kind == "sparse":  # always has a header, and no labels; groups count from 0
        bases = {"labels": options.label_base, "group_labels": options.label_base, "membership": 0}
        return open_text(file.path, "sparse", header=True, index_base=bases.get(file.role, options.index_base))
    return open_text(
        file.path,
        file.text_kind,
        header=file.text_kind == "xmc" and options.header,
        index_base=options.index_base,
        label_base=options.label_base,
        n_features=options.n_features,
        n_labels=options.n_labels,
    )


def on_bad_row_of(file: InputFile, options: ReadOptions) -> str:
    """What a row that cannot be read leads to. A group left out would renumber the others, so that is an error."""
    return "error" if file.role == "group_labels" else options.on_bad_row


def size_of_matrices(file: InputFile, access: Access, matrices: Mapping[str, sp.csr_matrix]) -> FileSize:
    """The size of a file of which all matrices are loaded."""
    widths = {name: matrix.shape[1] for name, matrix in matrices.items()}
    n_rows = next(iter(matrices.values())).shape[0]
    return FileSize(file.split, file.role, n_rows, widths, is_id_list=access == "ids")


def size_of_text(file: InputFile, source: TextSource, n_rows: int) -> FileSize:
    """The size of a text file of which `n_rows` rows belong to the split."""
    if source.kind == "sparse":
        return FileSize(file.split, file.role, n_rows, {matrix_name(file): source.n_features})
    return FileSize(file.split, file.role, n_rows, {"features": source.n_features, "labels": source.n_labels})


def rows_of_matrices(matrices: Mapping[str, sp.csr_matrix], start: int, stop: int) -> FileRows:
    """Rows start to stop - 1 of a file of which all matrices are loaded."""
    sliced = {name: slice_rows(to_triple(matrix), start, stop) for name, matrix in matrices.items()}
    return FileRows(sliced, np.arange(start, stop), [])


def rows_of_text(file: InputFile, parsed: Rows) -> FileRows:
    """The rows that were parsed of a text file."""
    if parsed.labels is None:
        return FileRows({matrix_name(file): parsed.features}, parsed.samples, parsed.rejects)
    return FileRows({"features": parsed.features, "labels": parsed.labels}, parsed.samples, parsed.rejects)


def read_chosen_rows(file: InputFile, options: ReadOptions, n_rows: int) -> np.ndarray:
    """The rows of a file that belong to its split, int64, in the order of the split; n_rows: all rows of the file."""
    assert file.chosen is not None, "only files with an index split have chosen rows"
    if options.split_base is None:
        raise DataError(
            "split_base must be given",
            where=file.chosen,
            why="whether the file counts from 0 or from 1 is never guessed",
            fix="split_base=1 for files of the XMC repository",
        )
    return read_index_split(file.chosen, base=options.split_base, column=options.split_column, n_rows=n_rows)


def choose_rows(rows: FileRows, chosen: np.ndarray, first: int = 0) -> FileRows:
    """The rows that an index split names. `chosen[0]` is row `first` of the split; dropped rows are missing.

    rows: all rows of the file that can be read.
    """
    places = np.searchsorted(rows.samples, chosen)
    there = places < len(rows.samples)
    there[there] = rows.samples[places[there]] == chosen[there]
    wanted = set(chosen.tolist()) if rows.rejects else set()
    return FileRows(
        {name: take_rows(triple, places[there]) for name, triple in rows.matrices.items()},
        first + np.flatnonzero(there),
        [reject for reject in rows.rejects if reject.row in wanted],
    )


def rows_in_all(found: Sequence[FileRows]) -> np.ndarray:
    """The numbers of the rows that every file has, ascending: a row dropped from one file is dropped from all."""
    return reduce(lambda some, others: np.intersect1d(some, others, assume_unique=True), [one.samples for one in found])


def keep_rows(rows: FileRows, kept: np.ndarray) -> dict[str, Triple]:
    """The matrices of a file with the rows of the given numbers, all of which it has."""
    if len(kept) == len(rows.samples):
        return rows.matrices
    places = np.searchsorted(rows.samples, kept)
    return {name: take_rows(triple, places) for name, triple in rows.matrices.items()}
