"""Files from outside the store: their digests, and whether they are still what was digested when they are read.

Knows nothing of stages. A file's stamp (size, times, inode; an object's ETag) stands for its content once the file is
settled: older than any clock's tick, so that a later change must change the stamp. Digests are kept by stamp; a unit of
work is believed only if all stamps were the same before and after it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from xpipe.errors import DataError
from xpipe.ground import files

TICK_NS = 2_000_000_000  # the coarsest clock of a file system: within it a file can change without another time
CONTENT_FIELDS = ("ETag", "etag", "generation", "VersionId", "version_id", "md5Hash", "content_md5", "Content-MD5")
TIME_FIELDS = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")

Stamp = tuple[int | str, ...]


@dataclass(frozen=True)
class Source:
    """A file as it was when it was digested; `settled`: whoever finds the same stamp has the same content."""

    path: str  # absolute, or a URL
    stamp: Stamp | None  # None: the file system tells nothing by which a change could be seen
    sha256: str
    settled: bool


class Digests(Protocol):
    def sources(self, paths: Iterable[str]) -> dict[str, Source]: ...


class Watched:
    """Digests of files for a stage's identity, and a list of the files that were asked for."""

    def __init__(self, artifacts: Digests):
        self._artifacts = artifacts
        self._found: dict[str, Source] = {}

    def digest_inputs(self, paths: Iterable[str]) -> dict[str, str]:
        """The sha256 of each file, by the path given."""
        found = self._artifacts.sources(paths)
        self._found.update(found)
        return {path: source.sha256 for path, source in found.items()}

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(self._found[path] for path in sorted(self._found))


def absolute(path: str) -> str:
    path = files.local(path)
    return os.path.abspath(path) if files.is_local(path) else path


def take_stamp(path: str) -> tuple[Stamp | None, bool]:
    """(stamp, settled) of a file as it is now."""
    path = files.local(path)
    if not files.is_local(path):
        return _remote_stamp(path)
    now = time.time_ns()
    status = os.stat(path)
    stamp = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)
    last_change = max(status.st_mtime_ns, status.st_ctime_ns)  # users set the first, nobody the second
    return stamp, stat.S_ISREG(status.st_mode) and now - last_change > TICK_NS


def _remote_stamp(path: str) -> tuple[Stamp | None, bool]:
    from fsspec.core import url_to_fs

    fs, name = url_to_fs(path)
    fs.invalidate_cache()
    facts = fs.info(name)
    content = [f"{field}={facts[field]}" for field in CONTENT_FIELDS if facts.get(field)]
    times = [f"{field}={facts[field]}" for field in TIME_FIELDS if facts.get(field)]
    if not content and not times:
        return None, False
    return (str(facts.get("size")), *content, *times), bool(content)


def digest(path: str, known: Any = None) -> Source:
    """A file with its digest; `known`, {"stamp": [...], "sha256": text}, saves hashing where the stamp is the same."""
    stamp, settled = take_stamp(path)  # before hashing: a change after this moment shows, whatever was hashed
    if stamp is not None and isinstance(known, dict) and known.get("stamp") == list(stamp):
        return Source(absolute(path), stamp, known["sha256"], settled)
    return Source(absolute(path), stamp, files.sha256(path), settled)


def check(sources: Sequence[Source]) -> tuple[Stamp | None, ...]:
    """The stamps of the files at this machine, each of which has the content that was digested.

    Another machine may see other inodes and times of the same file, and a file may be touched without being changed:
    then its digest decides. Raises DataError for a file with other content, or none.
    """
    found = []
    for source in sources:
        stamp = _stamp_or_none(source.path)
        same = stamp is not None and stamp == source.stamp
        if not same and source.stamp is not None and (stamp is None or _digest_of(source.path, stamp) != source.sha256):
            raise changed(source.path)
        found.append(stamp)
    return tuple(found)


def check_still(sources: Sequence[Source], stamps: tuple[Stamp | None, ...]) -> None:
    """Raises DataError unless every file has the stamp it had at `check`."""
    for source, stamp in zip(sources, stamps, strict=True):
        if _stamp_or_none(source.path) != stamp:
            raise changed(source.path)


def changed(path: str) -> DataError:
    return DataError(
        f"{files.basename(path)} changed while it was read",
        where=path,
        why="its size, times or place on the disk are not those of the file whose digest was taken",
        fix="give the same command again when nobody writes to it any more",
    )


def unsettled(sources: Sequence[Source]) -> list[list[int | str] | None]:
    """Stamps that alone do not prove what was read; a later run believes them only if it finds the same ones."""
    return [None if source.stamp is None else list(source.stamp) for source in sources if not source.settled]


def state_of(sources: Sequence[Source]) -> str:
    """One text that differs whenever a file has changed: for what processes keep in memory."""
    return repr([(source.path, source.stamp, source.sha256) for source in sources])


def _stamp_or_none(path: str) -> Stamp | None:
    try:
        return take_stamp(path)[0]
    except OSError:
        return None


@lru_cache(maxsize=64)
def _digest_of(path: str, stamp: Stamp) -> str:
    try:
        return files.sha256(path)
    except OSError:
        return ""
