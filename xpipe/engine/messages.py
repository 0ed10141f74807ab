"""What travels between a stage, its workers and the store: units of work, files that were written, receipts.

All of it is frozen and small: paths, numbers and ranges, never arrays. Stages derive their own units from `Unit`,
and declare their own dataclasses for the facts that all units of a step share and for what a unit tells.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from xpipe.ground import files

R = TypeVar("R")


@dataclass(frozen=True)
class Unit:
    """One piece of a step: `name` is that of its receipt, `size` what progress counts and tasks are cut by."""

    name: str
    size: int


@dataclass(frozen=True)
class FileEntry:
    """A file of a stage, with what the stage says of it (None where it does not apply).

    path: below the stage's folder. split, rows, entries: of a part of a matrix; dataset: of an emitted one.
    """

    path: str
    bytes: int
    sha256: str
    split: str | None = None
    rows: int | None = None
    entries: int | None = None
    dataset: str | None = None

    def to_json(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def entry_from(content: Mapping[str, Any]) -> FileEntry:
    """The entry in a manifest or receipt, whose shape was checked; what this release does not know of is left out."""
    return FileEntry(**{field.name: content[field.name] for field in fields(FileEntry) if field.name in content})


@dataclass(frozen=True)
class Finished(Generic[R]):
    """What became of a unit: the files it wrote, and what else it has to tell."""

    files: tuple[FileEntry, ...]
    result: R


def write_entry(folder: str, path: str, content: bytes, **facts: Any) -> FileEntry:
    """Write a file below a stage's folder; gives its entry."""
    files.write_bytes(files.join(folder, path), content)
    return FileEntry(path, len(content), hashlib.sha256(content).hexdigest(), **facts)


def entry_of_file(folder: str, path: str, **facts: Any) -> FileEntry:
    """The entry of a file that was written below a stage's folder already."""
    target = files.join(folder, path)
    return FileEntry(path, files.size(target), files.sha256(target), **facts)


def result_type(work: Any) -> Any:
    """What a work function tells of a unit: R of the `Finished[R]` in its annotation. Receipts are checked by it."""
    told = get_type_hints(work)["return"]
    while get_origin(told) is not None and get_origin(told) is not Finished:
        told = get_args(told)[-1]  # Iterator[tuple[Unit, Finished[R]]]
    return get_args(told)[0]
