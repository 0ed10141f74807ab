"""Locks that the kernel frees when their holder dies, however it dies: one run per folder, and a store in use.

Knows nothing of what a folder holds. A lock file is never followed through a link, and never removed while somebody
could be waiting for it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

from typing_extensions import TypedDict

from xpipe.errors import DataError, ResourceError
from xpipe.ground import files
from xpipe.ground.checked_json import parse_json
from xpipe.ground.private import private_folder

LOCK = ".lock"
LONGEST_OWNER = 4096  # bytes of a lock file that are read
POLL_SECONDS = 0.2
ATTEMPTS = 20


class Owner(TypedDict, total=False):
    """What a lock file says of its holder."""

    pid: int
    host: str
    since: str


class RunLock:
    """One run at a time in an output folder.

    Remote folders are locked by a file in a folder of this user on this machine: two machines writing to one remote
    folder do no harm to the store (equal keys, equal bytes), but the later `results.json` wins.
    """

    def __init__(self, out: str):
        self.out = files.local(out)
        self.left_behind: Owner | None = None
        self._stream: Any = None

    def __enter__(self) -> RunLock:
        import fcntl
        import socket

        path = lock_path(self.out)
        while True:
            self._stream = _open_lock(path)
            try:
                fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                owner = _read_owner(self._stream) or {}
                self._stream.close()
                if not isinstance(error, BlockingIOError):
                    raise _cannot_lock(self.out, path, error) from error
                raise ResourceError(
                    f"another run is writing to {self.out}",
                    where=f"process {owner.get('pid', '?')} on {owner.get('host', '?')}, "
                    f"since {owner.get('since', '?')}",
                    why="one run at a time may write to an output folder",
                    fix="wait for it, stop it, or use another folder: --set out=runs/other",
                ) from error
            if _is_still(self._stream, path):
                break
            self._stream.close()  # its folder was removed between our opening and our locking
        previous = _read_owner(self._stream)
        if previous is None and os.fstat(self._stream.fileno()).st_nlink > 1:
            self._stream.close()
            raise ResourceError(
                f"{self.out} cannot be locked",
                where=path,
                why="it is also a file of another name, with content that is no lock's",
                fix="remove the lock file",
            )
        self.left_behind = previous or None  # a finished run empties the file: this one died
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        own = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
        self._stream.seek(0)
        self._stream.truncate(0)
        self._stream.write(json.dumps(own).encode())
        self._stream.flush()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._stream.truncate(0)
        finally:
            self._stream.close()


class StoreLock:
    """Runs use a store side by side; whoever removes from it has it alone.

    A store that this user cannot write to is used without a lock: only its owner cleans it. A remote store is locked
    for this machine alone.
    """

    def __init__(self, store: str, *, alone: bool = False, note: Callable[[str], None] | None = None):
        self.store = files.local(store)
        self.alone = alone
        self.note = note
        self._stream: Any = None

    def __enter__(self) -> StoreLock:
        import fcntl

        path = lock_path(self.store)
        how = fcntl.LOCK_EX if self.alone else fcntl.LOCK_SH
        while True:
            try:
                self._stream = _open_lock(path)
            except ResourceError as error:
                if not self.alone and _is_forbidden(error.__cause__):
                    return self
                raise
            try:
                fcntl.flock(self._stream, how | fcntl.LOCK_NB)
            except OSError as error:
                self._stream.close()
                self._stream = None
                if not isinstance(error, BlockingIOError):
                    raise _cannot_lock(self.store, path, error) from error
                self._wait_or_refuse(error)
                continue
            if _is_still(self._stream, path):
                return self
            self._stream.close()

    def _wait_or_refuse(self, error: OSError) -> None:
        if self.alone:
            raise ResourceError(
                f"a run is using the store {self.store}",
                why="what it has found there and still needs cannot be told from what nobody needs",
                fix="wait for it, or stop it: the same command goes on later",
            ) from error
        if self.note is not None:
            self.note(f"waiting: {self.store} is being cleaned")
            self.note = None
        time.sleep(POLL_SECONDS)

    def __exit__(self, *_: object) -> None:
        if self._stream is None:
            return
        if self.alone:
            files.remove(lock_path(self.store))  # held: who waits for it looks whether it is still the same
        self._stream.close()


@contextlib.contextmanager
def sole_builder(folder: str, note: Callable[[str], None]) -> Iterator[None]:
    """Hold a stage's folder; wait for another run that is building the very same artifacts. Its death ends the wait."""
    lock, told = RunLock(folder), False
    while True:
        try:
            lock.__enter__()
            break
        except ResourceError as held:
            if not isinstance(held.__cause__, BlockingIOError):
                raise
            if not told:
                note(f"waiting: {held.where} is building {files.basename(folder)}")
            told = True
            time.sleep(POLL_SECONDS)
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


def lock_path(folder: str) -> str:
    if files.is_local(folder):
        return os.path.join(folder, LOCK)
    return os.path.join(private_folder(), f"{hashlib.sha256(folder.encode()).hexdigest()[:16]}.lock")


def _open_lock(path: str) -> IO[bytes]:
    """The lock file, made where it is not there. Raises ResourceError for a link, a FIFO, or anything else."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    for attempt in range(ATTEMPTS):
        try:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            descriptor = os.open(path, flags, 0o666)
            break
        except OSError as error:
            if isinstance(error, FileNotFoundError) and attempt < ATTEMPTS - 1:
                continue  # the folder was removed between the two steps
            why = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror or str(error)
            raise _cannot_lock(os.path.dirname(path), path, error, why) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _cannot_lock(os.path.dirname(path), path, None, "it is not a regular file")
    return open(descriptor, "r+b", buffering=0)


def _cannot_lock(folder: str, path: str, error: OSError | None, why: str = "") -> ResourceError:
    return ResourceError(
        f"{folder} cannot be locked",
        where=path,
        why=why or str(error),
        fix="use a folder of yours on a local disk; what is in the lock file's place can be removed",
    )


def _is_still(stream: IO[bytes], path: str) -> bool:
    """Whether the locked file is the one under its name: it could have been removed before it was locked."""
    try:
        named = os.lstat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(stream.fileno()), named)


def _is_forbidden(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)


def _read_owner(stream: IO[bytes]) -> Owner | None:
    """Who wrote the lock file; {} where it is empty, None where it holds anything else."""
    stream.seek(0)
    content = stream.read(LONGEST_OWNER)
    if not content:
        return {}
    try:
        return parse_json(content, Owner, where=LOCK)
    except DataError:
        return None
