"""Lock files: where they lie, how they are opened and locked, and whom they name as their holder.

Knows nothing of runs and stores. A lock file that is a link is refused.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import time
from collections.abc import Callable
from typing import IO

from typing_extensions import TypedDict

from xpipe.errors import DataError, ResourceError
from xpipe.ground import files
from xpipe.ground.checked_json import parse_json
from xpipe.ground.private import private_folder

LOCK = ".lock"
LONGEST_OWNER = 4096  # bytes of a lock file that are read
ATTEMPTS = 20


class Owner(TypedDict, total=False):
    """Who holds a lock, as the lock file says."""

    pid: int
    host: str
    since: str


def may_be_locked(folder: str) -> bool:
    """Whether a folder has a lock file. A remote folder always may have one: it lies on the machine of its user."""
    return not files.is_local(folder) or os.path.lexists(os.path.join(folder, LOCK))


def lock_path(folder: str) -> str:
    """The path of a folder's lock file: inside a local folder, in the user's private folder for a remote one."""
    if files.is_local(folder):
        return os.path.join(folder, LOCK)
    return os.path.join(private_folder(), f"{hashlib.sha256(folder.encode()).hexdigest()[:16]}.lock")


class NotOpened(ResourceError):
    """The lock file cannot be opened, or it is not a regular file."""


def acquire(folder: str, path: str, how: int, when_held: Callable[[Owner, BlockingIOError], None]) -> IO[bytes]:
    """Open and lock a lock file. how: LOCK_EX or LOCK_SH.

    when_held: called while somebody else holds the lock. It raises an error, or waits a moment; then we try again.
    """
    import fcntl

    while True:
        stream = _open_lock(path)
        try:
            fcntl.flock(stream, how | fcntl.LOCK_NB)
        except BlockingIOError as held:
            owner = _read_owner(stream) or {}
            stream.close()
            when_held(owner, held)
            continue
        except OSError as error:
            stream.close()
            raise _cannot_lock(folder, path, str(error)) from error
        if _is_still(stream, path):
            return stream
        stream.close()  # the file was removed after it was opened, before it was locked


def _open_lock(path: str) -> IO[bytes]:
    """Open the lock file, and create it where there is none. Raises NotOpened for a link, a FIFO, or anything else."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    for attempt in range(ATTEMPTS):
        try:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            descriptor = os.open(path, flags, 0o666)
            break
        except OSError as error:
            if isinstance(error, FileNotFoundError) and attempt < ATTEMPTS - 1:
                continue  # the folder was removed after it was made
            why = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror or str(error)
            raise _cannot_lock(os.path.dirname(path), path, why, NotOpened) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _cannot_lock(os.path.dirname(path), path, "it is not a regular file", NotOpened)
    return open(descriptor, "r+b", buffering=0)


def _cannot_lock(folder: str, path: str, why: str, kind: type[ResourceError] = ResourceError) -> ResourceError:
    """The error for a folder that cannot be locked."""
    return kind(
        f"{folder} cannot be locked",
        where=path,
        why=why,
        fix="use a folder of yours on a local disk; what is in the lock file's place can be removed",
    )


def _is_still(stream: IO[bytes], path: str) -> bool:
    """Whether the locked file is still the one under its name. It could have been removed before it was locked."""
    try:
        named = os.lstat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(stream.fileno()), named)


def is_forbidden(error: BaseException | None) -> bool:
    """Whether an error means that this user may not write there."""
    return isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)


def _read_owner(stream: IO[bytes]) -> Owner | None:
    """The owner that a lock file names; {} where it is empty, None where it holds something else."""
    stream.seek(0)
    content = stream.read(LONGEST_OWNER)
    if not content:
        return {}
    try:
        return parse_json(content, Owner, where=LOCK)
    except DataError:
        return None


def previous_owner(stream: IO[bytes], folder: str, path: str) -> Owner | None:
    """The run before, if it died: a finished run empties the lock file.

    Raises ResourceError for a file that also has another name and other content: locking would overwrite it.
    """
    previous = _read_owner(stream)
    if previous is None and os.fstat(stream.fileno()).st_nlink > 1:
        raise ResourceError(
            f"{folder} cannot be locked",
            where=path,
            why="it is also a file of another name, with content that is no lock's",
            fix="remove the lock file",
        )
    return previous or None


def write_owner(stream: IO[bytes]) -> None:
    """Write into the lock file that this process holds it."""
    import socket

    since = time.strftime("%Y-%m-%d %H:%M:%S")
    own = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
    stream.seek(0)
    stream.truncate(0)
    stream.write(json.dumps(own).encode())
    stream.flush()
