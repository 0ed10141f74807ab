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
from collections.abc import Iterator
from typing import IO, Any

from xpipe.errors import ResourceError

# A put to these becomes visible only when it is complete; a rename there would be a copy.
OBJECT_STORES = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl")
BLOCK = 1 << 22


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


def _filesystem(path: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    fs, name = url_to_fs(path)
    fs.invalidate_cache()  # other processes write there too: a listing of a moment ago may be wrong by now
    return fs, name


def exists(path: str) -> bool:
    if is_local(path):
        return os.path.exists(path)
    fs, name = _filesystem(path)
    return bool(fs.exists(name))


def is_folder(path: str) -> bool:
    if is_local(path):
        return os.path.isdir(path)
    fs, name = _filesystem(path)
    return bool(fs.isdir(name))


def size(path: str) -> int:
    if is_local(path):
        return os.path.getsize(path)
    fs, name = _filesystem(path)
    return int(fs.size(name))


def listing(folder: str) -> list[str]:
    """Names directly below a folder, sorted; empty when there is no such folder."""
    if is_local(folder):
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    fs, name = _filesystem(folder)
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
    fs, name = _filesystem(folder)
    if fs.isdir(name):
        yield from sorted(full[len(name.rstrip("/")) + 1 :] for full in fs.find(name))


@contextlib.contextmanager
def open_read(path: str) -> Iterator[IO[bytes]]:
    if is_local(path):
        with open(path, "rb") as stream:
            yield stream
    else:
        fs, name = _filesystem(path)
        with fs.open(name, "rb") as stream:
            yield stream


def read_bytes(path: str) -> bytes:
    with open_read(path) as stream:
        return stream.read()


@contextlib.contextmanager
def open_write(path: str) -> Iterator[IO[bytes]]:
    """A file that appears under its name only when it is complete and on disk; on an error nothing is left behind."""
    path = local(path)
    if not is_local(path):
        fs, name = _filesystem(path)
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
        return
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, _temporary(os.path.basename(path)))
    try:
        with open(temporary, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ResourceError(
                "the disk is full", where=path, why=str(error), fix="free some space and give the same command again"
            ) from error
        raise


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
    fs, name = _filesystem(path)
    with contextlib.suppress(FileNotFoundError):
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
    return f".{name}.{_host()}.{os.getpid()}.{secrets.token_hex(4)}.tmp"


def is_abandoned(name: str) -> bool:
    """True for the name of a temporary file whose writer, on this host, is no longer alive."""
    parts = name.rsplit(".", 4)
    if len(parts) != 5 or not name.startswith(".") or parts[4] != "tmp" or parts[1] != _host():
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
