"""Lays a run's outputs out in its folder, and takes away outputs it no longer has. Touches nothing else there.

What xpipe wrote into a run folder is on record, with sizes and digests: in results.json, and while an export is going
on in a journal beside it. A file of an earlier output goes only if it is still the file on record. A file that xpipe
did not write is never overwritten nor removed: where it is in the way of an output, it is moved to `kept/`.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from typing_extensions import TypedDict

from xpipe.engine.messages import FileEntry, entry_from
from xpipe.engine.results import RESULTS
from xpipe.engine.store import Artifact, EntryContent, file_damage
from xpipe.errors import DataError, ResourceError
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json, read_json

JOURNAL = ".written.json"
KEPT = "kept"
OWN = (RESULTS, JOURNAL, ".lock", KEPT)  # names in a run folder that no output can have


class Journal(TypedDict):
    """Files that xpipe wrote, or is about to write, into a run folder."""

    written: list[EntryContent]


class Output(NamedTuple):
    """A file to lay out: where it lies in the store, and its path in the run folder."""

    source: str
    path: str
    bytes: int
    sha256: str

    def entry(self) -> FileEntry:
        return FileEntry(self.path, self.bytes, self.sha256)


def export(artifacts: Sequence[Artifact], out: str, tell: Callable[[str], None] = print) -> dict[str, dict]:
    """Lay artifacts' folders and files out in the run's folder, by hard links where possible, each in one step.

    Artifacts may share a folder, such as `models`. Gives {output: path, files, bytes}. The record of what was written
    is `written(artifacts)`; the caller puts it into results.json and then calls `close_journal`.
    Raises ResourceError where an output cannot be written.
    """
    outputs = outputs_of(artifacts)
    try:
        before = read_record(out)
        _clear_half_written(out, {*(entry.path for entry in before), *(output.path for output in outputs)})
        _move_aside(outputs, before, out, tell)
        new = {output.path for output in outputs}
        todo = [output for output in outputs if not _is_in_place(out, output)]
        stale = [entry for entry in before if entry.path not in new]
        if todo or stale:
            record = [*before, *(output.entry() for output in outputs)]
            files.write_bytes(files.join(out, JOURNAL), dump_json({"written": [entry.to_json() for entry in record]}))
        _place(outputs, todo, {entry.path for entry in before} | new, out)
        _take_away(stale, out, tell)
    except OSError as error:
        raise ResourceError(
            "the outputs cannot be laid out", where=str(error.filename or out), why=error.strerror or str(error),
            fix="check who owns the folder, then give the same command again",
        ) from error  # fmt: skip
    return _totals(outputs, out)


def outputs_of(artifacts: Iterable[Artifact]) -> list[Output]:
    """The files of artifacts, by their paths in the run folder: those below the artifact's own folder."""
    found = []
    for artifact in artifacts:
        for entry in artifact.files:
            path = entry.path.partition("/")[2]
            if not path or path.partition("/")[0] in OWN:
                raise DataError(
                    f"the stored {artifact.name} has a file that is no output",
                    where=files.join(artifact.folder, entry.path),
                    fix=f"remove {artifact.folder}, then give the same command again",
                )
            source = files.join(artifact.folder, entry.path)
            found.append(Output(source, path, entry.bytes, entry.sha256))
    return found


def written(artifacts: Iterable[Artifact]) -> list[FileEntry]:
    """The record of what an export wrote."""
    return [output.entry() for output in outputs_of(artifacts)]


def close_journal(out: str) -> None:
    """Results.json has the record now."""
    files.remove(files.join(out, JOURNAL))


def read_record(out: str) -> list[FileEntry]:
    """What xpipe wrote into a run folder, as far as it is on record. Every path stays inside the folder."""
    found: list[FileEntry] = []
    for name in (RESULTS, JOURNAL):
        path = files.join(out, name)
        if not files.is_local(path) or _kind(path) == "file":
            with contextlib.suppress(DataError):  # unreadable, or of an older xpipe: then nothing is ours to remove
                found += map(entry_from, read_json(path, Journal, allow_nan=True)["written"])
    return [entry for entry in found if entry.path.partition("/")[0] not in OWN]


def _clear_half_written(out: str, paths: set[str]) -> None:
    """Remove what killed exports left under temporary names; only one run at a time writes to this folder."""
    ours = {path.partition("/")[0] for path in paths} | {RESULTS, JOURNAL}
    for name in files.listing(out):
        if files.is_temporary(name) and (files.is_abandoned(name) or files.stem_of_temporary(name) in ours):
            files.remove(files.join(out, name))
    for folder in {files.parent(path) for path in paths if "/" in path}:
        if files.is_local(out) and not _leads_elsewhere(out, folder + "/x"):
            for name in filter(files.is_temporary, files.listing(files.join(out, folder))):
                if f"{folder}/{files.stem_of_temporary(name)}" in paths:
                    files.remove(files.join(out, folder, name))


def _kind(path: str) -> str:
    """What there is under a path, no link followed: "" (nothing), "file", "folder" or "other"."""
    if not files.is_local(path):
        return "file" if files.exists(path) else ""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"


def _move_aside(outputs: list[Output], before: list[FileEntry], out: str, tell: Callable[[str], None]) -> None:
    """Move what xpipe did not write, and what is in the way of an output, to `kept/`: links, files, folders."""
    recorded = {entry.path for entry in before}
    checked, kept = set(), make_way(out, RESULTS, JOURNAL)
    for output in outputs:
        names = output.path.split("/")
        for depth in range(1, len(names) if files.is_local(out) else 0):
            folder = "/".join(names[:depth])
            if folder not in checked and _kind(files.join(out, folder)) not in ("", "folder"):
                _keep(out, folder)
                kept.append(folder)
            checked.add(folder)
        if output.path in recorded and not files.is_local(out):
            continue
        kind = _kind(files.join(out, output.path))
        ours = kind == "file" and (output.path in recorded or not file_damage(out, output.entry()))
        if kind and not ours:
            _keep(out, output.path)
            kept.append(output.path)
    if kept:
        more = f" and {len(kept) - 1} more" if len(kept) > 1 else ""
        tell(f"{kept[0]}{more} in {out}, not on record as written by xpipe, was in the way: moved to {KEPT}/")


def make_way(out: str, *names: str) -> list[str]:
    """Move what is no file, in the place of a file that xpipe writes into this folder, to `kept/`; gives the names."""
    found = [name for name in names if _kind(files.join(out, name)) not in ("", "file")]
    for name in found:
        _keep(out, name)
    return found


def _keep(out: str, path: str) -> None:
    if files.is_local(out) and _kind(files.join(out, KEPT)) not in ("", "folder"):
        what = f"{path} is in the way of an output, and {KEPT} in its own"
        raise ResourceError(what, where=out, fix="move both elsewhere")
    target, number = files.join(out, KEPT, path), 1
    while _kind(target):
        number += 1
        target = files.join(out, KEPT, f"{path}-{number}")
    if files.is_local(out):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.rename(files.join(out, path), target)
    else:
        files.link_or_copy(files.join(out, path), target)
        files.remove(files.join(out, path))


def _is_in_place(out: str, output: Output) -> bool:
    path = files.join(out, output.path)
    if files.is_local(path) and files.is_local(output.source):
        if _kind(path) != "file":
            return False
        if os.path.samefile(path, output.source):
            return True
    return not file_damage(out, output.entry())


def _place(outputs: list[Output], todo: list[Output], ours: set[str], out: str) -> None:
    """Put the files into their places; a folder that holds nothing but outputs is exchanged as a whole."""
    late = {output.path.partition("/")[0] for output in todo if "/" in output.path}
    for top in sorted(late) if files.is_local(out) else ():
        old = os.path.join(out, top)
        if all(f"{top}/{path}" in ours for path in _everything(old)):
            new = os.path.join(out, files.temporary_name(top))
            for output in outputs:
                if output.path.startswith(top + "/"):
                    files.link_or_copy(output.source, os.path.join(new, output.path.partition("/")[2]))
            gone = os.path.join(out, files.temporary_name(top))
            if _kind(old):
                os.rename(old, gone)
            os.rename(new, old)
            files.remove(gone)
            todo = [output for output in todo if not output.path.startswith(top + "/")]
    for output in todo:
        files.link_or_copy(output.source, files.join(out, output.path))


def _everything(folder: str) -> list[str]:
    """Everything below a local folder that is not a real folder itself; [] where there is no folder."""
    found = []
    for top, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(top, name))]
        found += [os.path.relpath(os.path.join(top, name), folder) for name in [*names, *links]]
    return found


def _take_away(stale: list[FileEntry], out: str, tell: Callable[[str], None]) -> None:
    """Remove outputs this pipeline no longer has: they must not pass for new ones. What was changed since stays."""
    left = []
    for entry in stale:
        path = files.join(out, entry.path)
        if files.is_local(out) and _leads_elsewhere(out, entry.path):
            continue
        if not file_damage(out, entry):
            files.remove(path)
            _remove_empty_folders(out, entry.path)
        elif files.exists(path):
            left.append(entry.path)
    if left:
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        tell(f"{left[0]}{more} in {out} is no output of this pipeline; it stays, for it is not as xpipe wrote it")


def _leads_elsewhere(out: str, path: str) -> bool:
    """Whether a folder on the way to a file is a link, or no folder at all."""
    names = path.split("/")[:-1]
    return any(_kind(os.path.join(out, *names[:depth])) != "folder" for depth in range(1, len(names) + 1))


def _remove_empty_folders(out: str, path: str) -> None:
    if not files.is_local(out):
        return
    names = path.split("/")[:-1]
    while names:
        try:
            os.rmdir(os.path.join(out, *names))
        except OSError:  # it holds something else
            return
        names.pop()


def _totals(outputs: list[Output], out: str) -> dict[str, dict]:
    found: dict[str, dict[str, Any]] = {}
    for output in outputs:
        top = output.path.partition("/")[0]
        total = found.setdefault(top, {"path": files.join(out, top), "files": 0, "bytes": 0})
        total["files"] += 1
        total["bytes"] += output.bytes
    return found
