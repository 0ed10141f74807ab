"""A temporary folder that no other user can read. It is removed sooner or later, even if its process is killed.

Knows nothing of what is put there. The owner holds a lock on the folder, which the kernel frees however the owner ends.
The next process that needs such a folder removes those that are not locked.
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
    """A new folder with mode 0700 below the system's temporary folder. It is removed when the block ends."""
    remove_abandoned(tempfile.gettempdir())
    owner = os.getpid()
    path, descriptor = _locked_folder()
    try:
        yield path
    finally:
        if os.getpid() == owner:  # a fork that drops its copy of this block must not take the folder away
            shutil.rmtree(path, ignore_errors=True)
            os.close(descriptor)


def _locked_folder() -> tuple[str, int]:
    """A new folder, and the open descriptor that holds its lock."""
    while True:
        path = tempfile.mkdtemp(prefix=PREFIX)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another process takes it for abandoned, because it is not locked yet
            os.close(descriptor)
            continue
        except OSError:  # this file system has no locks, so nobody can take the folder for abandoned
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
