"""What stage read gives for tables, and what its content key is made of. Reads no rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xpipe.engine.params import canonical_params
from xpipe.stages.read.tables.sources import Sources, sources_of

if TYPE_CHECKING:
    from xpipe.engine.sources import Watched
    from xpipe.stages.read.params import DataParams

VERSION = 1  # of the reading of tables; goes up when the same tables give other bytes
PATHS = ("train", "test", "dev", "group_labels", "label_names", "dir", "name", "if_missing", "format")


def provides(params: DataParams) -> tuple[str, ...]:
    """The artifacts that the stage will give for these tables."""
    sources = sources_of(params)
    found = ["texts", "names"]
    if sources.train.id is not None or sources.train.group is not None:
        found.append("ids")
    if sources.grouped:
        found += ["membership", "group_labels", *(["held_out_labels"] if sources.labelled else [])]
    else:
        found += ["labels", *(["groups"] if sources.train.group is not None else [])]
    return tuple(found)


def identity(params: DataParams, store: Watched) -> dict[str, Any]:
    """How the tables are read, and the digests of their bytes. A path is never in it, but the kind of a file is."""
    sources = sources_of(params)
    reading = canonical_params(params, leave_out=PATHS)
    reading["text"] = list(sources.train.text)
    roles = files_by_role(sources)
    digests = store.digest_inputs([path for found in roles.values() for path, _ in found])
    listed = {role: [[kind, digests[path]] for path, kind in found] for role, found in roles.items()}
    return {**reading, "tables": VERSION, "digests": listed}


def files_by_role(sources: Sources) -> dict[str, list[tuple[str, str]]]:
    """(path, kind) of every file, by what it is for. Raises DataError where one is not a regular file."""
    from xpipe.formats.blocks import check_is_file

    found = {source.split: [(file.path, file.kind) for file in source.files] for source in sources.splits}
    beside = {"group_labels": sources.group_labels, "label_names": sources.label_names}
    found |= {role: [(file.path, file.kind)] for role, file in beside.items() if file is not None}
    found |= {f"{each.split}.labels": [(each.matrix, "matrix")] for each in sources.splits if each.matrix}
    if sources.names is not None:
        found["names"] = [(sources.names, "lines")]
    for listed in found.values():
        for path, _ in listed:
            check_is_file(path)
    return found
