"""What travels between a stage, its workers and the store: units of work, entries of written files, results of units.

Holds no work. All messages are frozen and small: paths, numbers and ranges, never arrays. Stages derive their own units
from `Unit`. They declare their own dataclasses for what all units of a step share, and for the result of a unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from xpipe.ground import files

R = TypeVar("R")


@dataclass(frozen=True)
class Unit:
    """One piece of a step. name: that of its receipt. size: what progress counts; tasks are bundled by it."""

    name: str
    size: int


@dataclass(frozen=True)
class FileEntry:
    """A file of a stage, with what the stage states about it. None: does not apply.

    path: below the stage's folder. split, rows, entries: for a part of a matrix, its split, number of rows, and number
    of stored entries. dataset: for a part of an emitted dataset, the name of that dataset.
    """

    path: str
    bytes: int
    sha256: str
    split: str | None = None
    rows: int | None = None
    entries: int | None = None
    dataset: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The entry as manifests and receipts hold it, without what does not apply."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def entry_from(content: Mapping[str, Any]) -> FileEntry:
    """Make an entry from the checked content of a manifest or receipt. Keys that this release lacks are left out."""
    return FileEntry(**{field.name: content[field.name] for field in fields(FileEntry) if field.name in content})


@dataclass(frozen=True)
class Finished(Generic[R]):
    """A finished unit: the files that it wrote, and its result."""

    files: tuple[FileEntry, ...]
    result: R


def write_entry(folder: str, path: str, content: bytes, **facts: Any) -> FileEntry:
    """Write a file below a stage's folder. Returns its entry."""
    return FileEntry(path, **files.write_digested(files.join(folder, path), content), **facts)


def entry_of_file(folder: str, path: str, **facts: Any) -> FileEntry:
    """The entry of a file that was written below a stage's folder already."""
    target = files.join(folder, path)
    return FileEntry(path, files.size(target), files.sha256(target), **facts)


def result_type(work: Any) -> Any:
    """The type of a unit's result: R of the `Finished[R]` that the work function is annotated to return or yield.

    Receipts are checked against it.
    """
    returned = get_type_hints(work)["return"]
    while get_origin(returned) is not None and get_origin(returned) is not Finished:
        returned = get_args(returned)[-1]  # of Iterator[tuple[Unit, Finished[R]]], the last argument leads to Finished
    return get_args(returned)[0]
