"""Frees the store of what no finished run uses. Removes nothing outside it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from xpipe import files
from xpipe.errors import ConfigError
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
    for name in files.listing(runs):
        folder = files.join(runs, name)
        if name.startswith(".") or not files.is_folder(folder):
            continue
        if os.path.exists(os.path.join(folder, ".lock")):
            with RunLock(folder):  # raises when a run holds it
                pass
        used |= {f"{stage['stage']}-{stage['key']}" for stage in read_results(folder).get("stages", [])}
    removed = []
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
            files.remove(folder)
        removed.append(Removed(name, size, why))
    return removed
