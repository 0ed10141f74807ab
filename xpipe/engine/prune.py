"""Frees the store of what no finished run uses. Removes nothing outside it, and nothing in it that is not a stage's."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from xpipe.engine import registry
from xpipe.engine.locks import LOCK, RunLock, StoreLock
from xpipe.engine.results import RESULTS, path_of, stages_used
from xpipe.engine.store import Manifest, Store
from xpipe.errors import ConfigError, ResourceError
from xpipe.ground import files

DEEPEST = 6  # folders below the one of all runs; a matrix has its combinations one below its own
LEFT_OVER = "left over from a killed run"


@dataclass(frozen=True)
class Removed:
    """One stage folder that went (or would go), its bytes, and why."""

    name: str
    bytes: int
    why: str


def clean_store(
    runs: str,
    stages: Collection[str],
    *,
    store: str | None = None,
    everything: bool = False,
    dry_run: bool = False,
    tell: Callable[[str], None] | None = None,
) -> list[Removed]:
    """Remove unfinished stages, those no finished run uses, and what killed runs left; with `everything`, all stages.

    stages: the names of all there are; other folders in the store are somebody's own. Runs are those below `runs`, at
    any depth, and those elsewhere that are on record in the store, by default `runs`/.store. Raises ResourceError while
    a run is going on, ConfigError where there is no store, DataError where a run's results.json is damaged: what it
    uses is not known then.
    """
    runs = files.local(runs)
    store_path = files.local(store) if store else files.join(runs, ".store")
    if not files.is_folder(store_path):
        raise ConfigError(
            f"no store below {runs}" if not store else f"no store {store_path}",
            why=f"{store_path} is not a folder",
            fix="give the folder that holds your runs, or the store itself: --store PATH",
        )
    artifacts = Store(store_path)
    removed = []
    with contextlib.ExitStack() as locks:  # held to the end: a run that starts meanwhile must not lose what it finds
        used: set[str] = set()
        for folder in run_folders(runs):
            if not files.is_local(folder) or os.path.lexists(os.path.join(folder, LOCK)):
                locks.enter_context(RunLock(folder))  # raises when a run holds it
            if files.exists(path_of(folder)) and not everything:
                used |= stages_used(folder)
        locks.enter_context(StoreLock(store_path, alone=True))
        used |= set() if everything else registry.used_by_all(store_path)
        for folder, manifest in artifacts.stages():
            name = files.basename(folder)
            if manifest is None and name.rpartition("-")[0] not in stages:
                continue  # somebody's folder, put into the store
            if everything:
                why = "asked for"
            elif manifest is None:
                why = "unfinished"
            elif name not in used:
                why = "no run uses it"
            elif artifacts.leftovers(manifest):
                why = LEFT_OVER
            else:
                continue
            found = _free(artifacts, folder, manifest if why == LEFT_OVER else None, dry_run)
            if found is None:
                if tell is not None:
                    tell(f"{name} stays: somebody is building it")
                continue
            removed.append(Removed(name, found, why))
        if not dry_run:
            _clear_half_written(store_path)
            registry.forget_the_gone(store_path)
    return removed


def run_folders(runs: str, depth: int = 0) -> Iterator[str]:
    """Folders below `runs` that a run wrote to, or is writing to; no link is followed."""
    if not files.is_local(runs):
        results = [path for path in files.walk(runs) if files.basename(path) == RESULTS and not path.startswith(".")]
        yield from (files.parent(files.join(runs, path)) for path in results)
        return
    for name in files.listing(runs):
        folder = files.join(runs, name)
        if name.startswith(".") or not _is_real_folder(folder):
            continue
        if any(os.path.lexists(os.path.join(folder, mark)) for mark in (LOCK, RESULTS)):
            yield folder
        if depth < DEEPEST:
            yield from run_folders(folder, depth + 1)


def _is_real_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _free(artifacts: Store, folder: str, leftovers_of: Manifest | None, dry_run: bool) -> int | None:
    """Remove a stage, or only its leftovers; gives the bytes, None where somebody holds the stage."""
    whole = leftovers_of is None
    paths = list(files.walk(folder)) if leftovers_of is None else artifacts.leftovers(leftovers_of)
    size = sum(_size(files.join(folder, path)) for path in paths)
    locked = not files.is_local(folder) or os.path.lexists(os.path.join(folder, LOCK))
    with contextlib.ExitStack() as held:
        if locked and not os.path.islink(folder):
            try:
                held.enter_context(RunLock(folder))
            except ResourceError as error:
                if isinstance(error.__cause__, BlockingIOError):
                    return None
                if not whole:
                    raise
        if dry_run:
            return size
        if leftovers_of is not None:
            artifacts.sweep(leftovers_of)
            return size
        files.remove(folder)
        if files.exists(folder):
            raise ResourceError(
                "a stage of the store cannot be removed", where=folder, fix="check who owns it and what has it open"
            )
    return size


def _size(path: str) -> int:
    return os.lstat(path).st_size if files.is_local(path) else files.size(path)


def _clear_half_written(store: str) -> None:
    """Nobody uses the store now, so nobody is writing: every temporary file was left by a writer who died."""
    for folder in (store, registry.folder_of(store)):
        for name in files.listing(folder):
            if files.is_temporary(name):
                files.remove(files.join(folder, name))
