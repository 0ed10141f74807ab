"""Removes from the store what no finished run uses. Removes nothing outside the store, and only folders of stages."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from xpipe.engine import registry
from xpipe.engine.lock_files import LOCK, may_be_locked
from xpipe.engine.locks import RunLock, StoreLock
from xpipe.engine.manifest import Manifest
from xpipe.engine.paths import is_plain_folder, is_there
from xpipe.engine.results import RESULTS, path_of, stages_used
from xpipe.engine.store import Store
from xpipe.errors import ConfigError, ResourceError
from xpipe.ground import files
from xpipe.ground.temporary_names import is_temporary

DEEPEST = 6  # levels of folders below `runs` that are searched; the runs of a matrix lie one level below its own folder
LEFT_OVER = "left over from a killed run"


@dataclass(frozen=True)
class Removed:
    """A stage folder that was removed, or would be: its name, its bytes, and why."""

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
    """Remove unfinished stages, stages that no finished run uses, and what killed runs left.

    runs: the folder of the runs, at any depth. Runs elsewhere that are on record in the store count too.
    stages: the names of all stages. Other folders in the store are not ours, and stay. store: by default `runs`/.store.
    everything: remove all stages. dry_run: remove nothing, only tell what would be removed. tell: called with a line
    for each stage that another run is building, which stays.

    Raises ResourceError while a run is going on, ConfigError where there is no store, and DataError where the
    results.json of a run is damaged, since it is then unknown what the run uses.
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
        folders = _lock_all(runs, store_path, locks)
        used = set() if everything else _stages_in_use(folders, store_path)
        for folder, manifest in artifacts.stages():
            name = files.basename(folder)
            if manifest is None and name.rpartition("-")[0] not in stages:
                continue  # a folder that somebody put into the store
            why = "asked for" if everything else _why_unused(artifacts, name, manifest, used)
            if not why:
                continue
            found = _free(artifacts, folder, manifest if why == LEFT_OVER else None, dry_run)
            if found is not None:
                removed.append(Removed(name, found, why))
            elif tell is not None:
                tell(f"{name} stays: somebody is building it")
        if not dry_run:
            _clear_half_written(store_path)
            registry.forget_the_gone(store_path)
    return removed


def _lock_all(runs: str, store: str, locks: contextlib.ExitStack) -> list[str]:
    """Lock every run folder below `runs`, and the store. Returns the run folders.

    Raises ResourceError where a run is going on.
    """
    folders = list(run_folders(runs))
    for folder in filter(may_be_locked, folders):
        locks.enter_context(RunLock(folder))
    locks.enter_context(StoreLock(store, alone=True))
    return folders


def _stages_in_use(folders: list[str], store: str) -> set[str]:
    """Names of the stage folders that finished runs use: those in `folders`, and those on record in the store."""
    used = registry.used_by_all(store)
    for folder in folders:
        if files.exists(path_of(folder)):
            used |= stages_used(folder)
    return used


def _why_unused(artifacts: Store, name: str, manifest: Manifest | None, used: set[str]) -> str:
    """Why a stage can be removed, or LEFT_OVER where only its leftovers can; "" if all of it is in use."""
    if manifest is None:
        return "unfinished"
    if name not in used:
        return "no run uses it"
    return LEFT_OVER if artifacts.leftovers(manifest) else ""


def run_folders(runs: str, depth: int = 0) -> Iterator[str]:
    """Folders below `runs` that a run wrote to, or is writing to. Links are not followed."""
    if not files.is_local(runs):
        results = [path for path in files.walk(runs) if files.basename(path) == RESULTS and not path.startswith(".")]
        yield from (files.parent(files.join(runs, path)) for path in results)
        return
    for name in files.listing(runs):
        folder = files.join(runs, name)
        if name.startswith(".") or not is_plain_folder(folder):
            continue
        if any(is_there(files.join(folder, mark)) for mark in (LOCK, RESULTS)):
            yield folder
        if depth < DEEPEST:
            yield from run_folders(folder, depth + 1)


def _free(artifacts: Store, folder: str, leftovers_of: Manifest | None, dry_run: bool) -> int | None:
    """Remove a stage, or only its leftovers. Returns the bytes, or None where somebody is building the stage.

    leftovers_of: the manifest of a stage of which only the leftovers go. dry_run: remove nothing.
    """
    whole = leftovers_of is None
    paths = list(files.walk(folder)) if leftovers_of is None else artifacts.leftovers(leftovers_of)
    size = sum(_size(files.join(folder, path)) for path in paths)
    with contextlib.ExitStack() as held:
        if may_be_locked(folder) and not os.path.islink(folder):
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
    """The bytes of a file. A local link counts as itself, not as what it leads to."""
    return os.lstat(path).st_size if files.is_local(path) else files.size(path)


def _clear_half_written(store: str) -> None:
    """Remove all temporary files. Nobody else uses the store now, so they were left by processes that died."""
    for folder in (store, registry.folder_of(store)):
        for name in files.listing(folder):
            if is_temporary(name):
                files.remove(files.join(folder, name))
