"""Which run folders use a store: one small file, `<store>/users/<hash of the folder>.json`, per run folder.

Removes nothing but entries of run folders that are gone. While a run is going on, it also holds the store's lock
(`locks.StoreLock`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os

from typing_extensions import TypedDict

from xpipe.engine.paths import is_plain_file, is_there
from xpipe.engine.results import path_of, stages_used
from xpipe.errors import DataError, ResourceError
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json, read_json

USERS = "users"


class User(TypedDict):
    """A run folder, and the stages that its last finished run uses."""

    out: str
    stages: list[str]


def folder_of(store: str) -> str:
    """The folder of the entries."""
    return files.join(store, USERS)


def register(store: str, out: str, stages: list[str] | None = None) -> None:
    """Record that the run in `out` uses the store: once before its first stage, and once with its stages at its end."""
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
            return  # the store of another user: only its owner cleans it
        if isinstance(error, ResourceError):
            raise
        why = error.strerror or str(error)
        raise ResourceError("the store cannot be written", where=folder, why=why, fix="check who owns it") from error


def used_by_all(store: str) -> set[str]:
    """Names of the stage folders that the runs on record use.

    A local run folder that is gone uses nothing. For a remote one, the entry is taken as it is, without looking at the
    folder. Raises DataError where the results of a run exist but are damaged.
    """
    used: set[str] = set()
    for path in _entries(store):
        user = _read(path)
        if user is None:
            continue
        if not files.is_local(user["out"]):
            used |= set(user["stages"])
        elif is_there(path_of(user["out"])):
            used |= stages_used(user["out"])
    return used


def forget_the_gone(store: str) -> None:
    """Remove entries that cannot be read, and those of local run folders that are gone."""
    for path in _entries(store):
        user = _read(path)
        if user is None or (files.is_local(user["out"]) and not is_there(user["out"])):
            files.remove(path)
    with contextlib.suppress(OSError):
        if files.is_local(store):
            os.rmdir(folder_of(store))


def _entries(store: str) -> list[str]:
    """The paths of all entries."""
    folder = folder_of(store)
    return [files.join(folder, name) for name in files.listing(folder) if name.endswith(".json")]


def _read(path: str) -> User | None:
    """An entry; None where there is none, or where it is damaged."""
    if not is_plain_file(path):
        return None
    try:
        return read_json(path, User)
    except DataError:
        return None
