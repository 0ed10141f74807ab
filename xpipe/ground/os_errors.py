"""Errors of the operating system and of remote stores, explained: one table from error numbers to messages.

Holds no files and imports nothing heavy: `files`, `cluster` and `cli` hand their exceptions in.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

from xpipe.errors import ConfigError, ResourceError, XpipeError

AGAIN = "then give the same command again"
ACCOUNT = "check the address, the network, and that this machine has credentials for {protocol}://"
# error number -> (what happened, what to try)
REASONS: dict[int, tuple[str, str]] = {
    errno.ENOSPC: ("the disk is full", f"free some space, {AGAIN}"),
    errno.EDQUOT: ("the disk is full: your quota is used up", f"free some space or ask for a larger quota, {AGAIN}"),
    errno.EFBIG: ("a file would be larger than allowed here", f"raise the limit (`ulimit -f unlimited`), {AGAIN}"),
    errno.EROFS: ("the file system is read-only", "choose a folder on a disk that can be written"),
    errno.EACCES: ("access is denied", "check who owns it and its permissions, or choose another place"),
    errno.EPERM: ("the operation is not permitted", "check who owns it and its permissions, or choose another place"),
    errno.ENOTDIR: ("a file stands where a folder must be", "remove the file, or choose another place"),
    errno.EEXIST: ("a file stands where a folder must be", "remove the file, or choose another place"),
    errno.EISDIR: ("a folder stands where a file must be", "remove the folder, or choose another place"),
    errno.ENOENT: ("there is no such file or folder", "check the path; relative paths start in the current folder"),
    errno.ENAMETOOLONG: ("a name is too long for the file system", "use shorter names"),
    errno.ELOOP: ("links go round in a circle", "correct the links, or choose another place"),
    errno.EIO: ("the disk cannot be read or written", f"check the disk and the system's log, {AGAIN}"),
    errno.ESTALE: ("the network file system lost the file", f"check that it is mounted, {AGAIN}"),
    errno.EMFILE: ("this process has too many files open", f"raise the limit (`ulimit -n 4096`), {AGAIN}"),
    errno.ENFILE: ("the system has too many files open", f"end other programs, {AGAIN}"),
    errno.ENOMEM: ("memory ran out", "lower cluster.workers or cluster.chunk_rows, or end other programs"),
    errno.EAGAIN: ("the system has no room for another process, thread or lock", f"end other programs, {AGAIN}"),
    errno.ENODEV: ("the device is not there", "check that the disk is mounted"),
    errno.ENXIO: ("the device is not there", "check that the disk is mounted"),
    errno.ETXTBSY: ("the file is a program that is running", "choose another place"),
    errno.EBUSY: ("the file or folder is in use", f"end what uses it, {AGAIN}"),
    errno.EINVAL: ("the file system refuses the operation", "choose a folder on an ordinary disk"),
    errno.ENOSYS: ("the file system cannot do that", "choose a folder on an ordinary disk"),
    errno.EOPNOTSUPP: ("the file system cannot do that", "choose a folder on an ordinary disk"),
    errno.EMLINK: ("the file system allows no more links", "choose a folder on another disk"),
    errno.EXDEV: ("the folders are on different disks", "put them on one disk"),
    errno.ENOTEMPTY: ("the folder is not empty", "remove what is in it, or choose another place"),
    errno.ECONNREFUSED: ("nobody answers there", "check the address, and that the service is running"),
    errno.EHOSTUNREACH: ("the host cannot be reached", "check the address and the network"),
    errno.ENETUNREACH: ("the network cannot be reached", "check the network"),
    errno.EADDRNOTAVAIL: ("the address is not one of this machine", "check the address"),
    errno.EADDRINUSE: ("the address is in use", "end what uses it, or choose another port"),
    errno.ECONNRESET: ("the connection was broken", f"check the network, {AGAIN}"),
    errno.ETIMEDOUT: ("nothing answered in time", f"check the network, {AGAIN}"),
}
KINDS = {
    TimeoutError: errno.ETIMEDOUT,
    FileNotFoundError: errno.ENOENT,
    PermissionError: errno.EACCES,
    IsADirectoryError: errno.EISDIR,
    NotADirectoryError: errno.ENOTDIR,
}
# protocol of a URL -> what installs it
EXTRAS = {
    **dict.fromkeys(("s3", "s3a"), "pip install 'xpipe[s3]'"),
    **dict.fromkeys(("gs", "gcs"), "pip install gcsfs"),
    **dict.fromkeys(("abfs", "abfss", "az", "adl"), "pip install adlfs"),
    **dict.fromkeys(("http", "https"), "pip install aiohttp"),
    **dict.fromkeys(("ssh", "sftp"), "pip install paramiko"),
}
# clients of remote stores: every error of theirs is about the network, the account or the bucket
CLIENTS = ("aiobotocore", "aiohttp", "azure", "adlfs", "boto3", "botocore", "gcsfs", "google", "paramiko", "s3fs")


def explain_os_error(error: OSError, path: str = "") -> ResourceError:
    """An OSError as an error for the user. `path` is the file as the user knows it, by default that of the error."""
    number = error.errno
    if number is None:  # raised by a library that sets only the class
        number = next((of_kind for kind, of_kind in KINDS.items() if isinstance(error, kind)), None)
    what, fix = REASONS.get(number or 0, ("the system refuses to read or write", f"look at the reason, {AGAIN}"))
    where = shown_path(path or error.filename or "") or _compiler_cache(error)
    return ResourceError(what, where=where, why=reason_of(error), fix=fix)


def _compiler_cache(error: OSError) -> str:
    """How to name numba's cache, if the error comes from it: numba does not say which file it was writing."""
    frame = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename.replace("\\", "/").endswith("numba/core/caching.py"):
            return "the cache of compiled code (environment variable NUMBA_CACHE_DIR)"
        frame = frame.tb_next
    return ""


def reason_of(error: OSError) -> str:
    """The reason of an OSError on one line."""
    text = " ".join(str(error).split())
    if error.errno is not None and error.strerror:
        text = f"{error.strerror} ({errno.errorcode.get(error.errno, error.errno)})"
    return text[:300] or type(error).__name__


def shown_path(path: object) -> str:
    """A path that can be printed on one line, whatever bytes it has."""
    if isinstance(path, int):
        return f"file descriptor {path}"
    text = os.fsdecode(path) if isinstance(path, bytes) else str(path)
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


@contextlib.contextmanager
def explained(path: str, own: str | None = None) -> Iterator[None]:
    """Turn an OSError inside the block into an error that names `path`.

    own: a temporary file that `path` is written through; the user sees `path` instead. Errors about other files keep
    the names of these.
    """
    try:
        yield
    except OSError as error:
        theirs = error.filename if error.filename not in (None, own, path) else None
        raise explain_os_error(error, path if theirs is None else str(shown_path(theirs))) from error


@contextlib.contextmanager
def explained_remote(url: str, *, opening: bool = False) -> Iterator[None]:
    """Turn an error of a remote store's client inside the block into an error that names the URL.

    A FileNotFoundError stays one: callers ask whether files are there. opening: the client is being created, so that
    a ValueError means a missing package or an unknown protocol.
    """
    protocol = url.partition("://")[0]
    try:
        yield
    except (XpipeError, FileNotFoundError):
        raise
    except ImportError as error:
        fix = EXTRAS.get(protocol, f"install the package that gives fsspec the protocol {protocol}")
        raise ConfigError(f"{protocol}:// needs a package", where=shown_path(url), why=str(error), fix=fix) from error
    except (ValueError, TypeError, KeyError) as error:
        if not opening:
            raise
        raise ConfigError(
            "this URL cannot be opened",
            where=shown_path(url),
            why=str(error)[:300],
            fix="use a path of this machine, or a URL such as s3://bucket/folder",
        ) from error
    except PermissionError as error:
        raise ResourceError(
            "access is denied", where=shown_path(url), why=str(error)[:300], fix=ACCOUNT.format(protocol=protocol)
        ) from error
    except OSError as error:
        raise explain_os_error(error, url) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in CLIENTS:
            raise
        raise ResourceError(
            "the remote store cannot be used",
            where=shown_path(url),
            why=f"{type(error).__name__}: {str(error)[:300]}",
            fix=ACCOUNT.format(protocol=protocol),
        ) from error


def last_resort(error: BaseException) -> XpipeError | None:
    """An exception that nothing else explained, as an error for the user; None if the system is not its cause."""
    if isinstance(error, XpipeError):
        return error
    if isinstance(error, OSError):
        return explain_os_error(error)
    if isinstance(error, MemoryError):
        return ResourceError(
            "memory ran out",
            why=str(error)[:300],
            fix="lower cluster.workers, cluster.chunk_rows or data.part_rows, or use a machine with more memory",
        )
    number = written_number(error)
    if number is not None:
        return explain_os_error(OSError(number, os.strerror(number)))
    package = type(error).__module__.partition(".")[0]
    if package in CLIENTS:
        return ResourceError(
            "a remote store cannot be used",
            why=f"{type(error).__name__}: {str(error)[:300]}",
            fix="check the address, the network and the credentials of this machine",
        )
    return None


def written_number(error: BaseException) -> int | None:
    """The error number in the text of an exception or of its causes; None if there is none.

    Libraries written in Rust or C++ have it only there: `File too large (os error 27)`, `[errno 27] File too large`.
    """
    import re

    seen: BaseException | None = error
    for _ in range(5):
        if seen is None:
            return None
        if isinstance(seen, OSError) and seen.errno is not None:
            return seen.errno
        found = re.search(r"(?:os error |[eE]rrno )(\d{1,3})\b", str(seen))
        if found and int(found[1]) in errno.errorcode:
            return int(found[1])
        seen = seen.__cause__ or seen.__context__
    return None
