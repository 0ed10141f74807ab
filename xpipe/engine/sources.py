"""Files from outside the store: their digests, and whether they still have the digested content when they are read.

Knows nothing of stages. The stamp of a file is its size, times and inode; that of a remote object is its ETag. A file
is settled once it is older than any clock's tick: from then on every change of its content changes its stamp, so equal
stamps mean equal content. Digests are kept by stamp. A unit of work counts only if all stamps were the same before and
after it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from typing_extensions import TypedDict

from xpipe.engine.paths import absolute
from xpipe.errors import DataError
from xpipe.ground import files
from xpipe.ground.checked_json import Sha256

TICK_NS = 2_000_000_000  # the coarsest clock of a file system: two changes within a tick may have the same time
CONTENT_FIELDS = ("ETag", "etag", "generation", "VersionId", "version_id", "md5Hash", "content_md5", "Content-MD5")
TIME_FIELDS = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")

Stamp = tuple[int | str, ...]


@dataclass(frozen=True)
class Source:
    """A file as it was when it was digested.

    path: absolute, or a URL. stamp: None where the file system reports nothing that would reveal a change.
    settled: whether the same stamp proves the same content.
    """

    path: str
    stamp: Stamp | None
    sha256: str
    settled: bool


class KnownDigest(TypedDict):
    """The digest of a file, and the stamp that the file had, as digests.json holds them."""

    stamp: list[int | str]
    sha256: Sha256


class Digests(Protocol):
    """Gives digests of files. `Store` is one."""

    def sources(self, paths: Iterable[str]) -> dict[str, Source]:
        """Each file as it is now, with its digest, by the path given."""
        ...


class Watched:
    """Gives digests of files to a stage's `identity`, and remembers which files it asked for."""

    def __init__(self, artifacts: Digests):
        """Take the digests from `artifacts`."""
        self._artifacts = artifacts
        self._found: dict[str, Source] = {}

    def digest_inputs(self, paths: Iterable[str]) -> dict[str, str]:
        """The sha256 of each file, by the path given."""
        found = self._artifacts.sources(paths)
        self._found.update(found)
        return {path: source.sha256 for path, source in found.items()}

    @property
    def sources(self) -> tuple[Source, ...]:
        """The files that were asked for, sorted by path."""
        return tuple(self._found[path] for path in sorted(self._found))


def take_stamp(path: str) -> tuple[Stamp | None, bool]:
    """The stamp of a file as it is now, and whether the file is settled."""
    path = files.local(path)
    if not files.is_local(path):
        return _remote_stamp(path)
    now = time.time_ns()
    status = os.stat(path)
    stamp = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)
    last_change = max(status.st_mtime_ns, status.st_ctime_ns)  # users can set the first, but not the second
    return stamp, stat.S_ISREG(status.st_mode) and now - last_change > TICK_NS


def _remote_stamp(path: str) -> tuple[Stamp | None, bool]:
    """`take_stamp` for a URL: settled where the storage gives a digest or version of the content, not only times."""
    from fsspec.core import url_to_fs

    fs, name = url_to_fs(path)
    fs.invalidate_cache()
    facts = fs.info(name)
    content = [f"{field}={facts[field]}" for field in CONTENT_FIELDS if facts.get(field)]
    times = [f"{field}={facts[field]}" for field in TIME_FIELDS if facts.get(field)]
    if not content and not times:
        return None, False
    return (str(facts.get("size")), *content, *times), bool(content)


def digest(path: str, known: KnownDigest | None = None) -> Source:
    """A file with its digest. `known` is used instead of hashing where the file still has its stamp."""
    stamp, settled = take_stamp(path)  # before hashing: then a change while it is hashed changes the stamp
    if stamp is not None and known is not None and known["stamp"] == list(stamp):
        return Source(absolute(path), stamp, known["sha256"], settled)
    return Source(absolute(path), stamp, files.sha256(path), settled)


def check(sources: Sequence[Source]) -> tuple[Stamp | None, ...]:
    """Check that the files have the content that was digested. Returns their stamps as this machine sees them.

    Another machine may see other inodes and times of the same file, and a file may be touched without being changed.
    Where the stamp differs, the digest decides. Raises DataError for a file that has changed or is gone.
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
    """Raise DataError unless every file still has the stamp that `check` returned."""
    for source, stamp in zip(sources, stamps, strict=True):
        if _stamp_or_none(source.path) != stamp:
            raise changed(source.path)


def changed(path: str) -> DataError:
    """The error for an input file that changed while it was in use."""
    return DataError(
        f"{files.basename(path)} changed while it was read",
        where=path,
        why="its size, times or place on the disk are not those of the file whose digest was taken",
        fix="give the same command again when nobody writes to it any more",
    )


def unsettled(sources: Sequence[Source]) -> list[list[int | str] | None]:
    """The stamps of files that are not settled. What was read from them counts only while they keep these stamps."""
    return [None if source.stamp is None else list(source.stamp) for source in sources if not source.settled]


def state_of(sources: Sequence[Source]) -> str:
    """A text that differs whenever a file has changed. Processes use it as the key of what they keep in memory."""
    return repr([(source.path, source.stamp, source.sha256) for source in sources])


def _stamp_or_none(path: str) -> Stamp | None:
    """The stamp of a file; None where it cannot be read."""
    try:
        return take_stamp(path)[0]
    except OSError:
        return None


@lru_cache(maxsize=64)
def _digest_of(path: str, stamp: Stamp) -> str:
    """The digest of a file with this stamp, hashed once per process; "" where it cannot be read."""
    try:
        return files.sha256(path)
    except OSError:
        return ""
