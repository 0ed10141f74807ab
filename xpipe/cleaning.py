"""Frees the store of what no finished run uses. Removes nothing outside it."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from xpipe import files
from xpipe.errors import ConfigError, ResourceError
from xpipe.pipeline import read_results
from xpipe.store import RunLock, Store


@dataclass(frozen=True)
class Removed:
    """One stage folder that went (or would go), its bytes, and why."""

    name: str
    bytes: int
    why: str


def clean_store(runs: str, *, everything: bool = False, dry_run: bool = False) -> list[Removed]:
    """Remove unfinished stages and those no results.json below `runs` names; with `everything`, all of them.

    Raises ResourceError while a run below `runs` is going on, ConfigError where there is no store.
    """
    runs = files.local(runs)
    store_path = files.join(runs, ".store")
    if not files.is_folder(store_path):
        raise ConfigError(
            f"no store below {runs}", why=f"{store_path} is not a folder", fix="give the folder that holds your runs"
        )
    used = set()
    removed = []
    with contextlib.ExitStack() as locks:  # held to the end: a run that starts meanwhile must not lose what it finds
        for name in files.listing(runs):
            folder = files.join(runs, name)
            if name.startswith(".") or not files.is_folder(folder):
                continue
            if not files.is_local(folder) or os.path.exists(os.path.join(folder, ".lock")):
                locks.enter_context(RunLock(folder))  # raises when a run holds it
            used |= {f"{stage['stage']}-{stage['key']}" for stage in read_results(folder).get("stages", [])}
        for folder, manifest in Store(store_path).stages():
            name = files.basename(folder)
            if everything:
                why = "asked for"
            elif manifest is None:
                why = "unfinished"
            elif name not in used:
                why = "no run uses it"
            else:
                continue
            size = sum(files.size(files.join(folder, path)) for path in files.walk(folder))
            if not dry_run:
                _remove(folder)
            removed.append(Removed(name, size, why))
    return removed


def _remove(folder: str) -> None:
    files.remove(folder)
    if files.exists(folder):
        raise ResourceError(
            "a stage of the store cannot be removed", where=folder, fix="check who owns it and what has it open"
        )
