"""Files, local or remote: complete-or-nothing writes, digests, listings. A path may be a local path or an fsspec URL.

Holds nothing of stages, keys or formats.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator
from typing import IO, Any

from typing_extensions import Buffer, TypedDict

from xpipe.ground.os_errors import explained, explained_remote
from xpipe.ground.regular_files import open_regular
from xpipe.ground.temporary_names import temporary_name

# A file on these becomes visible only when it is complete, and a rename would be a copy.
OBJECT_STORES = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl")
BLOCK = 1 << 22


def is_local(path: str) -> bool:
    """Whether a path is a plain local path, not a URL."""
    return "://" not in path


def local(path: str) -> str:
    """`file://` URLs become plain paths; everything else stays as it is."""
    return path.removeprefix("file://") if path.startswith("file://") else path


def join(path: str, *names: str) -> str:
    """A path below another, with / between names; works for paths and URLs."""
    if not names:
        return path
    if not path or path.endswith("://"):  # the current folder, or the root of a remote one
        return path + "/".join(names)
    return "/".join([path.rstrip("/"), *names])


def parent(path: str) -> str:
    """The folder of a path; works for paths and URLs."""
    top, slash, _ = path.rstrip("/").rpartition("/")
    return top or slash or "."


def basename(path: str) -> str:
    """The last name of a path; works for paths and URLs."""
    return path.rstrip("/").rpartition("/")[2]


@contextlib.contextmanager
def _remote(path: str) -> Iterator[tuple[Any, str]]:
    """The file system of a URL and the name of the file there; errors of its client inside the block are explained."""
    with explained_remote(path, opening=True):
        from fsspec.core import url_to_fs

        fs, name = url_to_fs(path)
    with explained_remote(path):
        fs.invalidate_cache()  # other processes write there too: an earlier listing may be wrong by now
        yield fs, name


def exists(path: str) -> bool:
    """Whether there is a file or a folder."""
    if is_local(path):
        return os.path.exists(path)
    with _remote(path) as (fs, name):
        # `fs.exists` answers False for every exception: a store without credentials would look empty
        try:
            fs.info(name)
        except FileNotFoundError:
            return False
        return True


def is_folder(path: str) -> bool:
    """Whether there is a folder."""
    if is_local(path):
        return os.path.isdir(path)
    with _remote(path) as (fs, name):
        return bool(fs.isdir(name))


def size(path: str) -> int:
    """The bytes of a file."""
    if is_local(path):
        return os.path.getsize(path)
    with _remote(path) as (fs, name):
        return int(fs.size(name))


def stamp(path: str) -> tuple[int, ...]:
    """Numbers that change when another file takes the place of this one; empty where there is no file.

    Device, inode, size and times of a local file; the size of a remote one.
    """
    path = local(path)
    if not is_local(path):
        return (size(path),) if exists(path) else ()
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def listing(folder: str) -> list[str]:
    """Names directly below a folder, sorted; none where there is no such folder."""
    if is_local(folder):
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    with _remote(folder) as (fs, name):
        if not fs.isdir(name):
            return []
        return sorted(basename(found) for found in fs.ls(name, detail=False) if found.rstrip("/") != name.rstrip("/"))


def walk(folder: str) -> Iterator[str]:
    """Every file below a folder, as a path relative to it, sorted."""
    if is_local(folder):
        found = []
        for top, _, names in os.walk(folder):
            found += [os.path.relpath(os.path.join(top, name), folder).replace(os.sep, "/") for name in names]
        yield from sorted(found)
        return
    with _remote(folder) as (fs, name):
        found = sorted(full[len(name.rstrip("/")) + 1 :] for full in fs.find(name)) if fs.isdir(name) else []
    yield from found


@contextlib.contextmanager
def open_read(path: str) -> Iterator[IO[bytes]]:
    """A stream of a file's bytes. Raises NotRegularFile for a folder, FIFO, socket or device."""
    path = local(path)
    if not is_local(path):
        with _remote(path) as (fs, name):
            if "file" not in (fs.protocol if isinstance(fs.protocol, tuple) else (fs.protocol,)):
                with fs.open(name, "rb") as stream:
                    yield stream
                return
        path = name
    with open_regular(path) as stream:
        yield stream


def read_bytes(path: str) -> bytes:
    """All bytes of a file."""
    with open_read(path) as stream:
        return stream.read()


@contextlib.contextmanager
def open_write(path: str) -> Iterator[IO[bytes]]:
    """A file to write, which appears under its name only when it is complete and on disk. An error leaves nothing."""
    path = local(path)
    if not is_local(path):
        with explained(path), _remote(path) as (fs, name):
            yield from _write_remote(fs, name, path)
        return
    folder = os.path.dirname(path) or "."
    temporary = os.path.join(folder, temporary_name(os.path.basename(path)))
    with explained(path, own=temporary):
        os.makedirs(folder, exist_ok=True)
        try:
            with open(temporary, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


def _write_remote(fs: Any, name: str, path: str) -> Iterator[IO[bytes]]:
    """The generator behind `open_write` for a remote file."""
    whole = path.split("://", 1)[0] in OBJECT_STORES
    target = name if whole else join(parent(name), temporary_name(basename(name)))
    if not whole:  # object stores have no folders, and would make a bucket of a mistyped name
        fs.makedirs(parent(name), exist_ok=True)
    stream = fs.open(target, "wb")
    try:
        yield stream
        stream.close()
    except BaseException:
        with contextlib.suppress(Exception):  # the first error is the one to report
            if whole:
                stream.closed = True  # or its finaliser would upload what there is
                stream.discard()
            else:
                stream.close()
        if not whole:
            with contextlib.suppress(Exception):
                fs.rm(target)
        raise
    if not whole:
        fs.mv(target, name)


def write_bytes(path: str, content: bytes) -> None:
    """Write a file, complete or not at all."""
    with open_write(path) as stream:
        stream.write(content)


class Digested(TypedDict):
    """The size and the digest of a file that was written."""

    bytes: int
    sha256: str


def write_digested(path: str, content: Buffer) -> Digested:
    """Write a file, complete or not at all; returns the number of its bytes and their SHA-256."""
    view = memoryview(content)
    with open_write(path) as stream:
        stream.write(view)
    return Digested(bytes=view.nbytes, sha256=hashlib.sha256(view).hexdigest())


def remove(path: str) -> None:
    """Remove a file or a folder with all below it; a missing one is fine."""
    if is_local(path):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        return
    with _remote(path) as (fs, name), contextlib.suppress(FileNotFoundError):
        fs.rm(name, recursive=True)


def sha256(path: str) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal digits."""
    digest = hashlib.sha256()
    with open_read(path) as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def link_or_copy(source: str, target: str) -> None:
    """Make `target` the same file as `source`: a hard link where the file system can, else a copy. Atomic."""
    if is_local(source) and is_local(target):
        with explained(target):
            os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
        if os.path.exists(target) and os.path.samefile(source, target):
            return
        temporary = os.path.join(os.path.dirname(target), temporary_name(os.path.basename(target)))
        try:
            os.link(source, temporary)
            os.replace(temporary, target)
            return
        except OSError:  # another device, or a file system without links
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
    with open_read(source) as stream, open_write(target) as out:
        shutil.copyfileobj(stream, out, BLOCK)
