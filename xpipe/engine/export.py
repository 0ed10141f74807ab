"""Lays a run's outputs out in its folder, and removes outputs that it no longer has. Touches nothing else there.

What xpipe wrote is on record (`run_record`). A file of an earlier output is removed only if it is still the file on
record. A file that xpipe did not write is never overwritten or removed: where it is in the way of an output, it is
moved to `kept/` (`keep_aside`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from xpipe.engine.keep_aside import make_way, make_way_for_outputs
from xpipe.engine.manifest import Artifact, file_damage
from xpipe.engine.messages import FileEntry
from xpipe.engine.paths import kind_of
from xpipe.engine.results import RESULTS
from xpipe.engine.run_record import JOURNAL, KEPT, OWN, read_record, top_of, write_journal
from xpipe.errors import DataError, ResourceError
from xpipe.ground import files
from xpipe.ground.temporary_names import is_abandoned, is_temporary, stem_of_temporary, temporary_name


class Output(NamedTuple):
    """A file to lay out: where it lies in the store, and its path in the run folder."""

    source: str
    path: str
    bytes: int
    sha256: str

    def entry(self) -> FileEntry:
        """The file as the record of the run folder lists it."""
        return FileEntry(self.path, self.bytes, self.sha256)


def export(artifacts: Sequence[Artifact], out: str, tell: Callable[[str], None] = print) -> dict[str, dict[str, Any]]:
    """Lay the files of artifacts out in the run's folder, by hard links where possible.

    Artifacts may share a folder, such as `models`. Returns {output: path, files, bytes}. The record of what was written
    is `written(artifacts)`. The caller puts it into results.json and then calls `close_journal`. tell: called with each
    warning. Raises ResourceError where an output cannot be written.
    """
    outputs = outputs_of(artifacts)
    try:
        _lay_out(outputs, out, tell)
    except OSError as error:
        raise ResourceError(
            "the outputs cannot be laid out", where=str(error.filename or out), why=error.strerror or str(error),
            fix="check who owns the folder, then give the same command again",
        ) from error  # fmt: skip
    return _totals(outputs, out)


def _lay_out(outputs: list[Output], out: str, tell: Callable[[str], None]) -> None:
    """Put the outputs into their places, and remove those of earlier runs."""
    before = read_record(out)
    recorded, new = {entry.path for entry in before}, {output.path for output in outputs}
    _clear_half_written(out, recorded | new)
    kept = make_way(out, RESULTS, JOURNAL)
    kept += make_way_for_outputs((output.entry() for output in outputs), recorded, out)
    if kept:
        tell(f"{_first_of(kept)} in {out}, not on record as written by xpipe, was in the way: moved to {KEPT}/")
    todo = [output for output in outputs if not _is_in_place(out, output)]
    stale = [entry for entry in before if entry.path not in new]
    if todo or stale:
        write_journal(out, [*before, *(output.entry() for output in outputs)])
    _place(outputs, todo, recorded | new, out)
    left = _take_away(stale, out)
    if left:
        tell(
            f"{_first_of(left)} in {out} is no output of this pipeline; "
            "it stays, because it is no longer as xpipe wrote it"
        )


def outputs_of(artifacts: Iterable[Artifact]) -> list[Output]:
    """The files of artifacts, with their paths in the run folder: those below the folder with the artifact's name.

    Raises DataError for a file that lies elsewhere, or that would replace a file of the run folder itself.
    """
    found = []
    for artifact in artifacts:
        for entry in artifact.files:
            folder, _, path = entry.path.partition("/")
            source = files.join(artifact.folder, entry.path)
            if folder != artifact.name or not path or top_of(path) in OWN:
                raise DataError(
                    f"the stored {artifact.name} has a file that is no output",
                    where=source,
                    why=f"outputs lie below {artifact.name}/, and none may be named {', '.join(OWN)}",
                    fix=f"remove {artifact.folder}, then give the same command again",
                )
            found.append(Output(source, path, entry.bytes, entry.sha256))
    return found


def written(artifacts: Iterable[Artifact]) -> list[FileEntry]:
    """The record of what an export wrote."""
    return [output.entry() for output in outputs_of(artifacts)]


def _first_of(paths: list[str]) -> str:
    """The first of some paths, and how many more there are."""
    return paths[0] + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")


def _clear_half_written(out: str, paths: set[str]) -> None:
    """Remove what killed exports left under temporary names. Only one run at a time writes to this folder."""
    ours = {top_of(path) for path in paths} | {RESULTS, JOURNAL}
    for name in files.listing(out):
        if is_temporary(name) and (is_abandoned(name) or stem_of_temporary(name) in ours):
            files.remove(files.join(out, name))
    for folder in {files.parent(path) for path in paths if "/" in path}:
        if files.is_local(out) and not _leads_elsewhere(out, folder + "/x"):
            for name in filter(is_temporary, files.listing(files.join(out, folder))):
                if f"{folder}/{stem_of_temporary(name)}" in paths:
                    files.remove(files.join(out, folder, name))


def _is_in_place(out: str, output: Output) -> bool:
    """Whether an output lies in the run folder already, undamaged."""
    path = files.join(out, output.path)
    if files.is_local(path) and files.is_local(output.source):
        if kind_of(path) != "file":
            return False
        if os.path.samefile(path, output.source):
            return True
    return not file_damage(out, output.entry())


def _place(outputs: list[Output], todo: list[Output], ours: set[str], out: str) -> None:
    """Put the files `todo` into their places. A local folder with nothing but outputs is replaced as a whole."""
    tops = {top_of(output.path) for output in todo if "/" in output.path} if files.is_local(out) else set()
    whole = {top for top in tops if all(f"{top}/{path}" in ours for path in _everything(os.path.join(out, top)))}
    for top in sorted(whole):
        _replace_folder([output for output in outputs if output.path.startswith(top + "/")], top, out)
    for output in todo:
        if top_of(output.path) not in whole:
            files.link_or_copy(output.source, files.join(out, output.path))


def _replace_folder(outputs: list[Output], top: str, out: str) -> None:
    """Build a new folder beside the old one, then put it into the old one's place by a rename."""
    old, new, gone = os.path.join(out, top), *(os.path.join(out, temporary_name(top)) for _ in range(2))
    for output in outputs:
        files.link_or_copy(output.source, os.path.join(new, output.path.removeprefix(top + "/")))
    if kind_of(old):
        os.rename(old, gone)
    os.rename(new, old)
    files.remove(gone)


def _everything(folder: str) -> list[str]:
    """Everything below a local folder that is not a real folder itself; [] where there is no folder."""
    found = []
    for top, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(top, name))]
        found += [os.path.relpath(os.path.join(top, name), folder) for name in [*names, *links]]
    return found


def _take_away(stale: list[FileEntry], out: str) -> list[str]:
    """Remove outputs that this pipeline no longer has, so that nobody takes them for new ones.

    Returns the paths of those that stay, because they were changed since xpipe wrote them.
    """
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
    # a file that a killed run wrote anew is on record twice, and was removed by its later entry
    return [path for path in dict.fromkeys(left) if files.exists(files.join(out, path))]


def _leads_elsewhere(out: str, path: str) -> bool:
    """Whether a folder on the way to a file is a link, or no folder at all."""
    names = path.split("/")[:-1]
    return any(kind_of(os.path.join(out, *names[:depth])) != "folder" for depth in range(1, len(names) + 1))


def _remove_empty_folders(out: str, path: str) -> None:
    """Remove the folders on the way to a removed file that hold nothing any more."""
    if not files.is_local(out):
        return
    names = path.split("/")[:-1]
    while names:
        try:
            os.rmdir(os.path.join(out, *names))
        except OSError:  # it holds something else
            return
        names.pop()


def _totals(outputs: list[Output], out: str) -> dict[str, dict[str, Any]]:
    """For each output, its path in the run folder, the number of its files, and their bytes."""
    found: dict[str, dict[str, Any]] = {}
    for output in outputs:
        top = top_of(output.path)
        total = found.setdefault(top, {"path": files.join(out, top), "files": 0, "bytes": 0})
        total["files"] += 1
        total["bytes"] += output.bytes
    return found
