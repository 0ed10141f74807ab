"""Which files a setting names as a table: one file, several, a folder or a glob, local or remote; told by endings.

Holds no reading of rows.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass

from xpipe.errors import DataError
from xpipe.ground import files
from xpipe.ground.close_match import did_you_mean

KINDS = {".parquet": "parquet", ".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl"}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
ENDINGS = ".parquet, .csv, .tsv or .jsonl; of text also .gz and .zst"
PATTERN = "*?["  # characters that make a path a glob


@dataclass(frozen=True)
class TableFile:
    """One file of a table.

    Attributes
    ----------
    path : str
        A local path or an fsspec URL.
    kind : str
        parquet, csv, tsv, jsonl, or lines (one text per line).
    compression : str, optional
        gzip or zstd; None for a file that is not compressed.
    """

    path: str
    kind: str
    compression: str | None = None


def table_file(path: str) -> TableFile:
    """A file with its kind, by its ending. Raises DataError for an ending that is not known."""
    found = _known(path)
    if found is None:
        ending = files.basename(path).partition(".")[2]
        near = did_you_mean("." + ending, list(KINDS))
        raise DataError(
            "not a table by its ending", where=path,
            why=f"tables end in {ENDINGS}" + (f"; {near}" if near else ""),
            fix="export it as one of these; files of matrices are named by data.dir",
        )  # fmt: skip
    return found


def _known(path: str) -> TableFile | None:
    """A file with its kind; None for an ending that is not known."""
    name, compression = files.basename(path).lower(), None
    for ending, packed in COMPRESSIONS.items():
        if name.endswith(ending):
            name, compression = name.removesuffix(ending), packed
    for ending, kind in KINDS.items():
        if name.endswith(ending) and not (kind == "parquet" and compression):
            return TableFile(path, kind, compression)
    return None


def find_tables(paths: str | Sequence[str], *, what: str = "the table") -> tuple[TableFile, ...]:
    """The files of a table in the order of their rows.

    Parameters
    ----------
    paths : str or sequence of str
        A file, a folder (all its tables, by name), a glob (all matches, by name), or several of these, in this order.
        Each may be an fsspec URL.
    what : str
        The setting that names the files, for messages.

    Returns
    -------
    tuple of TableFile
        Each file with its kind.

    Raises
    ------
    DataError
        Where nothing is found, a file is no table, a file is named twice, or a folder holds tables of several kinds.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> from xpipe.formats import find_tables
    >>> folder = tempfile.TemporaryDirectory()
    >>> for name in ("b.csv", "a.csv"):
    ...     _ = pathlib.Path(folder.name, name).write_text("sku,title\\n1,soup\\n")
    >>> [file.path.removeprefix(folder.name) for file in find_tables(folder.name)]
    ['/a.csv', '/b.csv']
    >>> folder.cleanup()
    """
    named = [paths] if isinstance(paths, str) else list(paths)
    if not named:
        raise DataError(f"{what} names no file", fix="name at least one")
    found = [file for path in named for file in _expand(files.local(str(path)), what)]
    seen: set[str] = set()
    for file in found:
        if file.path in seen:
            raise DataError(f"{what} names a file twice", where=file.path, why="its rows would be there twice")
        seen.add(file.path)
    return tuple(found)


def _expand(path: str, what: str) -> list[TableFile]:
    """The files that one path stands for."""
    if not any(letter in path for letter in PATTERN) or (files.is_local(path) and os.path.lexists(path)):
        if files.is_folder(path):
            return _in_folder(path, what)
        if not files.exists(path):
            near = did_you_mean(files.basename(path), files.listing(files.parent(path)))
            raise DataError(
                f"{what}: there is no such file", where=path, why=near,
                fix="check the path; relative paths start in the current folder",
            )  # fmt: skip
        return [table_file(path)]
    matches = _matches(path)
    if not matches:
        raise DataError(f"{what}: no file matches", where=path, fix="check the pattern; ** matches folders too")
    return [table_file(match) for match in matches]


def _matches(pattern: str) -> list[str]:
    """The files that match a glob, sorted."""
    if files.is_local(pattern):
        return sorted(path for path in glob.glob(pattern, recursive=True) if not os.path.isdir(path))
    from fsspec.core import url_to_fs

    from xpipe.ground.os_errors import explained_remote

    with explained_remote(pattern, opening=True):
        fs, name = url_to_fs(pattern)
    with explained_remote(pattern):
        return sorted(str(fs.unstrip_protocol(path)) for path in fs.glob(name) if not fs.isdir(path))


def _in_folder(folder: str, what: str) -> list[TableFile]:
    """All tables of a folder, by name. Names that begin with . or _ are left out, as Spark and Hive do."""
    names = [name for name in files.listing(folder) if not name.startswith((".", "_"))]
    other = [name for name in names if _known(name) is None]
    if other or not names:
        raise DataError(
            f"{what}: the folder holds " + (f"{other[0]}, which is no table" if other else "no table"),
            where=folder, why=f"tables end in {ENDINGS}",
            fix=f"name the files by a pattern: {files.join(folder, '*.csv')}",
        )  # fmt: skip
    found = [table_file(files.join(folder, name)) for name in names]
    kinds = sorted({file.kind for file in found})
    if len(kinds) > 1:
        raise DataError(
            f"{what}: the folder holds tables of several kinds: {', '.join(kinds)}", where=folder,
            why="they may hold the same rows", fix=f"name files by a pattern: {files.join(folder, '*.' + kinds[0])}",
        )  # fmt: skip
    return found
