"""What lies under a path, without following links; and absolute paths.

Reads no content and writes nothing. A link could lead anywhere, so the engine never takes one for a file or folder.
"""

from __future__ import annotations

import os
import stat
from typing import Literal

from xpipe.ground import files

Kind = Literal["", "file", "folder", "other"]


def absolute(path: str) -> str:
    """The absolute form of a local path. A URL is returned as it is."""
    path = files.local(path)
    return os.path.abspath(path) if files.is_local(path) else path


def kind_of(path: str) -> Kind:
    """What a path is itself: "" (nothing is there), "file", "folder", or "other" (a link, a FIFO, a socket, ...).

    Remote storage has no links: there, whatever exists counts as a file. Raises OSError where a local path cannot be
    examined, for example for lack of permission.
    """
    if not files.is_local(path):
        return "file" if files.exists(path) else ""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"


def is_plain_file(path: str) -> bool:
    """Whether a path is a file itself: not a link, which could lead anywhere, and not a FIFO, which could block."""
    return _kind_or_nothing(path) == "file"


def is_plain_folder(path: str) -> bool:
    """Whether a local path is a folder itself, not a link to one."""
    return _kind_or_nothing(path) == "folder"


def is_there(path: str) -> bool:
    """Whether anything has this path, a broken link included."""
    return os.path.lexists(path) if files.is_local(path) else files.exists(path)


def _kind_or_nothing(path: str) -> Kind:
    """`kind_of`, with "" for a path that cannot be examined."""
    try:
        return kind_of(path)
    except OSError:
        return ""
