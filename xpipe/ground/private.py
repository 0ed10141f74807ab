"""A folder that only this user can read and write, for locks of remote folders and for compiled kernels.

Holds nothing about what is kept there.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator

from xpipe.errors import ResourceError


def private_folder() -> str:
    """A folder that only this user can enter; created if it does not exist.

    Everybody can write to the temporary folder. Whoever creates `xpipe-<uid>` there first could give us kernels
    (pickles, so code) or hold our locks. So a folder is used only if it is a real folder, belongs to this user and is
    closed to others. A folder that others could write to is refused, because of what it may already hold.
    Raises ResourceError if no place is suitable.
    """
    return _first_private(_places())


def cache_folder() -> str:
    """A folder as `private_folder` gives it. It outlives a restart of the machine where there is such a place.

    Raises ResourceError if no place is suitable.
    """
    places = list(_places())
    return _first_private(reversed(places))


def _first_private(places: Iterable[str]) -> str:
    """The first of these folders that only this user can enter."""
    refused = []
    for place in places:
        why = _refusal(place)
        if not why:
            return place
        refused.append(f"{place}: {why}")
    raise ResourceError(
        "there is no folder that only this user can write to",
        why="; ".join(refused),
        fix="remove what is there, or set TMPDIR to a folder of yours",
    )


def _places() -> Iterator[str]:
    """The folders to try, best first."""
    name = f"xpipe-{os.geteuid()}"
    yield os.path.join(tempfile.gettempdir(), name)
    if os.environ.get("XDG_RUNTIME_DIR"):
        yield os.path.join(os.environ["XDG_RUNTIME_DIR"], name)
    home = os.path.expanduser("~")
    if os.path.isdir(home):
        yield os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), name)


def _refusal(folder: str) -> str:
    """Why a folder cannot be used; "" if it can."""
    try:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        status = os.lstat(folder)  # never through a link: its owner could point it elsewhere later
        if not stat.S_ISDIR(status.st_mode):
            return "is not a folder"
        if status.st_uid != os.geteuid():
            return f"belongs to user {status.st_uid}"
        if status.st_mode & 0o022:
            return "was open to others for writing"
        if status.st_mode & 0o777 != 0o700:
            os.chmod(folder, 0o700)
    except OSError as error:
        return error.strerror or str(error)
    return ""
