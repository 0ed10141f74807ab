"""Which run folders use a store, wherever they lie: `<store>/users/<hash of the folder>.json`, one for each.

A live run also holds the store's lock (`locks.StoreLock`). Removes nothing but entries of folders that are gone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os

from typing_extensions import TypedDict

from xpipe.engine.results import path_of, stages_used
from xpipe.errors import DataError, ResourceError
from xpipe.ground import files
from xpipe.ground.checked_json import read_json

USERS = "users"


class User(TypedDict):
    """A run folder and the stages its last finished run stands on."""

    out: str
    stages: list[str]


def folder_of(store: str) -> str:
    return files.join(store, USERS)


def register(store: str, out: str, stages: list[str] | None = None) -> None:
    """Record that the run in `out` uses the store: before its first stage, and with its stages when it is finished."""
    from xpipe.ground.checked_json import dump_json

    path = files.join(folder_of(store), hashlib.sha256(out.encode(errors="surrogatepass")).hexdigest()[:20] + ".json")
    before = _read(path)
    if stages is None:
        stages = before["stages"] if before is not None and before["out"] == out else []
    user: User = {"out": out, "stages": stages}
    if before == user:
        return
    folder = folder_of(store)
    try:
        if files.is_local(folder) and os.path.islink(folder):
            raise ResourceError("a link is in the place of a folder of the store", where=folder, fix="remove it")
        if files.is_local(path) and os.path.isdir(path):
            files.remove(path)
        files.write_bytes(path, dump_json(user))
    except (OSError, ResourceError) as error:
        if files.is_local(store) and not os.access(store, os.W_OK):
            return  # somebody else's store: only its owner cleans it
        if isinstance(error, ResourceError):
            raise
        why = error.strerror or str(error)
        raise ResourceError("the store cannot be written", where=folder, why=why, fix="check who owns it") from error


def used_by_all(store: str) -> set[str]:
    """Names of the stage folders that the runs on record stand on.

    A local folder that is gone uses nothing; what a remote one uses is believed without a look.
    Raises DataError where the results of a run are there but damaged.
    """
    used: set[str] = set()
    for path in _entries(store):
        user = _read(path)
        if user is None:
            continue
        if not files.is_local(user["out"]):
            used |= set(user["stages"])
        elif os.path.lexists(path_of(user["out"])):
            used |= stages_used(user["out"])
    return used


def forget_the_gone(store: str) -> None:
    """Remove entries that cannot be read, and those of local folders that are no longer there."""
    for path in _entries(store):
        user = _read(path)
        if user is None or (files.is_local(user["out"]) and not os.path.lexists(user["out"])):
            files.remove(path)
    with contextlib.suppress(OSError):
        if files.is_local(store):
            os.rmdir(folder_of(store))


def _entries(store: str) -> list[str]:
    folder = folder_of(store)
    return [files.join(folder, name) for name in files.listing(folder) if name.endswith(".json")]


def _read(path: str) -> User | None:
    if files.is_local(path) and (os.path.islink(path) or not os.path.isfile(path)):
        return None
    try:
        return read_json(path, User)
    except DataError:
        return None
