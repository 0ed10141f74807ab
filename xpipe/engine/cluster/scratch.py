"""A temporary folder that nobody else reads and that never stays for ever, not even when its process is killed.

Its owner holds a lock on it, which the kernel frees however the owner ends; the next one removes what is not locked.
Knows nothing of what is put there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator

PREFIX = "xpipe-dask-"


@contextlib.contextmanager
def scratch_folder() -> Iterator[str]:
    """A new folder with mode 0700 below the temporary folder; it goes when the block ends."""
    remove_abandoned(tempfile.gettempdir())
    path, descriptor = _locked_folder()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def _locked_folder() -> tuple[str, int]:
    while True:
        path = tempfile.mkdtemp(prefix=PREFIX)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # somebody takes it for abandoned, just before we could lock it
            os.close(descriptor)
            continue
        except OSError:  # no locks on this file system: nobody can find it abandoned either
            return path, descriptor
        if os.path.isdir(path):
            return path, descriptor
        os.close(descriptor)


def remove_abandoned(parent: str) -> None:
    """Remove the scratch folders of this user below `parent` whose owners are dead."""
    for name in os.listdir(parent) if os.path.isdir(parent) else []:
        if not name.startswith(PREFIX):
            continue
        path = os.path.join(parent, name)
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_uid == os.getuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)
