"""Moves what xpipe did not write, and what is in the way of an output, to `kept/` in the run folder.

Overwrites and removes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from xpipe.engine.manifest import file_damage
from xpipe.engine.messages import FileEntry
from xpipe.engine.paths import kind_of
from xpipe.engine.run_record import KEPT
from xpipe.errors import ResourceError
from xpipe.ground import files


def make_way(out: str, *names: str) -> list[str]:
    """Move what is not a file, in the place of a file that xpipe writes into this folder, to `kept/`.

    Returns the names of what was moved.
    """
    found = [name for name in names if kind_of(files.join(out, name)) not in ("", "file")]
    for name in found:
        keep(out, name)
    return found


def make_way_for_outputs(outputs: Iterable[FileEntry], recorded: set[str], out: str) -> list[str]:
    """Move what is in the way of outputs to `kept/`: links, files and folders that are not on record.

    Returns the paths of what was moved.
    """
    kept: list[str] = []
    checked: set[str] = set()
    for output in outputs:
        if files.is_local(out):
            for folder in _folders_above(output.path):
                if folder not in checked and kind_of(files.join(out, folder)) not in ("", "folder"):
                    keep(out, folder)
                    kept.append(folder)
                checked.add(folder)
        elif output.path in recorded:
            continue
        kind = kind_of(files.join(out, output.path))
        ours = kind == "file" and (output.path in recorded or not file_damage(out, output))
        if kind and not ours:
            keep(out, output.path)
            kept.append(output.path)
    return kept


def _folders_above(path: str) -> Iterator[str]:
    """The folders on the way to a file in the run folder, outermost first."""
    names = path.split("/")
    yield from ("/".join(names[:depth]) for depth in range(1, len(names)))


def keep(out: str, path: str) -> None:
    """Move a file or folder of the run folder to `kept/`, under a name that is free there."""
    if files.is_local(out) and kind_of(files.join(out, KEPT)) not in ("", "folder"):
        what = f"{path} is in the way of an output, and {KEPT} in its own"
        raise ResourceError(what, where=out, fix="move both elsewhere")
    target, number = files.join(out, KEPT, path), 1
    while kind_of(target):
        number += 1
        target = files.join(out, KEPT, f"{path}-{number}")
    if files.is_local(out):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.rename(files.join(out, path), target)
    else:
        files.link_or_copy(files.join(out, path), target)
        files.remove(files.join(out, path))
