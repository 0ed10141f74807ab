"""Files, local or remote: whole-or-nothing writes, digests, listings. Every path may be a local path or an fsspec URL.

Knows nothing of stages, keys or formats.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import socket
import stat
from collections.abc import Iterator
from typing import IO, Any

from xpipe.errors import DataError
from xpipe.ground.os_errors import explained, explained_remote

# A put to these becomes visible only when it is complete; a rename there would be a copy.
OBJECT_STORES = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl")
BLOCK = 1 << 22
LONGEST_STEM = 140  # bytes of a file's name that its temporary name repeats: file systems allow 255 in all


def is_local(path: str) -> bool:
    return "://" not in path


def local(path: str) -> str:
    """`file://` URLs become plain paths; everything else stays as it is."""
    return path.removeprefix("file://") if path.startswith("file://") else path


def join(path: str, *names: str) -> str:
    if not names:
        return path
    if not path or path.endswith("://"):  # the current folder, or the root of a remote one
        return path + "/".join(names)
    return "/".join([path.rstrip("/"), *names])


def parent(path: str) -> str:
    top, slash, _ = path.rstrip("/").rpartition("/")
    return top or slash or "."


def basename(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


@contextlib.contextmanager
def _remote(path: str) -> Iterator[tuple[Any, str]]:
    """The file system of a URL and the name there; what its client raises inside the block is explained."""
    with explained_remote(path, opening=True):
        from fsspec.core import url_to_fs

        fs, name = url_to_fs(path)
    with explained_remote(path):
        fs.invalidate_cache()  # other processes write there too: a listing of a moment ago may be wrong by now
        yield fs, name


def exists(path: str) -> bool:
    if is_local(path):
        return os.path.exists(path)
    with _remote(path) as (fs, name):
        # `fs.exists` takes every exception for a no: a store without credentials would look empty
        try:
            fs.info(name)
        except FileNotFoundError:
            return False
        return True


def is_folder(path: str) -> bool:
    if is_local(path):
        return os.path.isdir(path)
    with _remote(path) as (fs, name):
        return bool(fs.isdir(name))


def size(path: str) -> int:
    if is_local(path):
        return os.path.getsize(path)
    with _remote(path) as (fs, name):
        return int(fs.size(name))


def stamp(path: str) -> tuple:
    """What tells a file from one that took its place: device, inode, size and times; of a remote one its size."""
    path = local(path)
    if not is_local(path):
        return (size(path),) if exists(path) else ()
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def listing(folder: str) -> list[str]:
    """Names directly below a folder, sorted; empty when there is no such folder."""
    if is_local(folder):
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    with _remote(folder) as (fs, name):
        if not fs.isdir(name):
            return []
        return sorted(basename(found) for found in fs.ls(name, detail=False) if found.rstrip("/") != name.rstrip("/"))


def walk(folder: str) -> Iterator[str]:
    """Every file below a folder, as paths relative to it, sorted."""
    if is_local(folder):
        found = []
        for top, _, names in os.walk(folder):
            found += [os.path.relpath(os.path.join(top, name), folder).replace(os.sep, "/") for name in names]
        yield from sorted(found)
        return
    with _remote(folder) as (fs, name):
        found = sorted(full[len(name.rstrip("/")) + 1 :] for full in fs.find(name)) if fs.isdir(name) else []
    yield from found


class NotRegularFile(DataError, IsADirectoryError):
    """A folder, FIFO, socket or device where a file should be; an OSError too, for callers that treat all alike."""


_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe (FIFO)"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_regular(path: str) -> IO[bytes]:
    """A local file to read. Raises NotRegularFile at once for everything else, which could make a reader wait for ever.

    The opened file itself is looked at, not its name: nothing can take its place in between.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENODEV):  # a socket, or a device without a driver
            raise _not_regular(path, os.stat(path).st_mode) from error
        raise
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise _not_regular(path, mode)
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _not_regular(path: str, mode: int) -> NotRegularFile:
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "something special")
    return NotRegularFile(
        f"{path} is {kind}, not a file",
        why="files are read more than once (digest, then rows), and a stream cannot be",
        fix="give the path of a file; write what a pipe or /dev/stdin carries to one first",
    )


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
    with open_read(path) as stream:
        return stream.read()


@contextlib.contextmanager
def open_write(path: str) -> Iterator[IO[bytes]]:
    """A file that appears under its name only when it is complete and on disk; on an error nothing is left behind."""
    path = local(path)
    if not is_local(path):
        with explained(path), _remote(path) as (fs, name):
            yield from _write_remote(fs, name, path)
        return
    folder = os.path.dirname(path) or "."
    temporary = os.path.join(folder, _temporary(os.path.basename(path)))
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
    whole = path.split("://", 1)[0] in OBJECT_STORES
    target = name if whole else join(parent(name), _temporary(basename(name)))
    if not whole:  # object stores have no folders, and would make a bucket of a mistyped name
        fs.makedirs(parent(name), exist_ok=True)
    stream = fs.open(target, "wb")
    try:
        yield stream
        stream.close()
    except BaseException:
        with contextlib.suppress(Exception):  # the error that matters is the one on its way
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
    with open_write(path) as stream:
        stream.write(content)


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
        temporary = os.path.join(os.path.dirname(target), _temporary(os.path.basename(target)))
        try:
            os.link(source, temporary)
            os.replace(temporary, target)
            return
        except OSError:  # another device, or a file system without links
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
    with open_read(source) as stream, open_write(target) as out:
        shutil.copyfileobj(stream, out, BLOCK)


def _host() -> str:
    return socket.gethostname().replace(".", "-")


def _temporary(name: str) -> str:
    """A name beside `name` that no other writer takes; never too long where `name` itself is not."""
    short = os.fsencode(name)[:LONGEST_STEM].decode(errors="ignore")
    return f".{short}.{_host()[:64]}.{os.getpid()}.{secrets.token_hex(4)}.tmp"


def is_abandoned(name: str) -> bool:
    """True for the name of a temporary file whose writer, on this host, is no longer alive."""
    parts = name.rsplit(".", 4)
    if len(parts) != 5 or not name.startswith(".") or parts[4] != "tmp" or parts[1] != _host()[:64]:
        return False
    return parts[2].isdecimal() and not is_alive(int(parts[2]))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # the latter: no system gives such a number
        return False
    except PermissionError:
        return True
    return True


def temporary_name(name: str) -> str:
    """A name beside `name` that no other writer takes, and that `is_abandoned` recognises when its writer is dead."""
    return _temporary(name)


def is_temporary(name: str) -> bool:
    """True for a name that `temporary_name` gave, on any host."""
    parts = name.rsplit(".", 4)
    return len(parts) == 5 and name[0] == "." and parts[4] == "tmp" and parts[2].isdecimal() and len(parts[3]) == 8


def stem_of_temporary(name: str) -> str:
    """The name that a temporary name stands beside."""
    return name.rsplit(".", 4)[0].removeprefix(".")
