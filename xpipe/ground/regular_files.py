"""Opening local files that are really files: folders, pipes, sockets and devices are refused at once.

Holds no remote files and no writing.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import IO

from xpipe.errors import DataError

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe (FIFO)"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NotRegularFile(DataError, IsADirectoryError):
    """A folder, FIFO, socket or device in the place of a file. It is an OSError too, for callers that catch those."""


def open_regular(path: str) -> IO[bytes]:
    """Open a local file for reading. Raises NotRegularFile for everything else, which could block a reader forever.

    The check looks at the opened file, not at its name, so that nothing can take its place in between.
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
    """The error for what is at a path instead of a file."""
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "something special")
    return NotRegularFile(
        f"{path} is {kind}, not a file",
        why="files are read more than once (digest, then rows), and a stream cannot be",
        fix="give the path of a file; write what a pipe or /dev/stdin carries to one first",
    )
