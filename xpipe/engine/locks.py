"""Locks on folders: one run per output folder, and a store in use. The kernel frees them however their holder ends.

Knows nothing of what a folder holds. `lock_files` opens and locks the files.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import IO

from xpipe.engine.lock_files import NotOpened, Owner, acquire, is_forbidden, lock_path, previous_owner, write_owner
from xpipe.errors import ResourceError
from xpipe.ground import files

POLL_SECONDS = 0.2


class RunLock:
    """Lets one run at a time write to an output folder.

    A remote folder is locked by a file in a private folder of this user on this machine. Two machines that write to one
    remote folder do no harm to the store (equal keys mean equal bytes), but the later `results.json` wins.
    """

    def __init__(self, out: str):
        """Prepare the lock of the folder `out`. It is taken when the `with` block begins."""
        self.out = files.local(out)
        self.left_behind: Owner | None = None  # the run before, where it did not finish
        self._stream: IO[bytes] | None = None

    def __enter__(self) -> RunLock:
        """Take the lock. Raises ResourceError where another run holds it, or where the folder cannot be locked."""
        import fcntl

        path = lock_path(self.out)
        stream = acquire(self.out, path, fcntl.LOCK_EX, self._refuse)
        try:
            self.left_behind = previous_owner(stream, self.out, path)
            write_owner(stream)
        except BaseException:
            stream.close()
            raise
        self._stream = stream
        return self

    def __exit__(self, *_: object) -> None:
        """Empty the lock file, which marks the run as finished, and free the lock."""
        assert self._stream is not None
        try:
            self._stream.truncate(0)
        finally:
            self._stream.close()

    def _refuse(self, owner: Owner, held: BlockingIOError) -> None:
        """Raise the error for a folder that another run has locked."""
        raise ResourceError(
            f"another run is writing to {self.out}",
            where=f"process {owner.get('pid', '?')} on {owner.get('host', '?')}, since {owner.get('since', '?')}",
            why="one run at a time may write to an output folder",
            fix="wait for it, stop it, or use another folder: --set out=runs/other",
        ) from held


class StoreLock:
    """Lets any number of runs use a store at the same time, or one command, alone, remove from it.

    A store that this user cannot write to is used without a lock, since only its owner can clean it. A remote store is
    locked for this machine only.
    """

    def __init__(self, store: str, *, alone: bool = False, note: Callable[[str], None] | None = None):
        """Prepare the lock. alone: nobody else may use the store. note: called once if a run has to wait."""
        self.store = files.local(store)
        self.alone = alone
        self.note = note
        self._stream: IO[bytes] | None = None

    def __enter__(self) -> StoreLock:
        """Take the lock. A run waits while the store is cleaned; `alone` raises ResourceError while a run uses it."""
        import fcntl

        how = fcntl.LOCK_EX if self.alone else fcntl.LOCK_SH
        try:
            self._stream = acquire(self.store, lock_path(self.store), how, self._wait_or_refuse)
        except NotOpened as error:
            if self.alone or not is_forbidden(error.__cause__):
                raise
        return self

    def _wait_or_refuse(self, owner: Owner, held: BlockingIOError) -> None:
        """Wait a moment for the store to be free, or refuse where `alone` is asked for."""
        if self.alone:
            raise ResourceError(
                f"a run is using the store {self.store}",
                why="what it has found there and still needs cannot be told from what nobody needs",
                fix="wait for it, or stop it: the same command goes on later",
            ) from held
        if self.note is not None:
            self.note(f"waiting: {self.store} is being cleaned")
            self.note = None
        time.sleep(POLL_SECONDS)

    def __exit__(self, *_: object) -> None:
        """Free the lock. After cleaning, the lock file is removed too."""
        if self._stream is None:
            return
        if self.alone:
            files.remove(lock_path(self.store))  # still held: whoever waits for it checks that it is the same file
        self._stream.close()


@contextlib.contextmanager
def sole_builder(folder: str, note: Callable[[str], None]) -> Iterator[None]:
    """Lock a stage's folder, and wait while another run builds the same artifacts. If that run dies, the wait ends."""
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
