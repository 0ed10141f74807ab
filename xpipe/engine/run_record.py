"""The record of what xpipe wrote into a run folder, with sizes and digests. Writes no output itself.

The record is in results.json and, while an export is going on, in a journal beside it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from typing_extensions import TypedDict

from xpipe.engine.lock_files import LOCK
from xpipe.engine.manifest import EntryContent
from xpipe.engine.messages import FileEntry, entry_from
from xpipe.engine.paths import kind_of
from xpipe.engine.results import RESULTS
from xpipe.errors import DataError
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json, read_json

JOURNAL = ".written.json"
KEPT = "kept"
OWN = (RESULTS, JOURNAL, LOCK, KEPT)  # names in a run folder that no output can have


class Journal(TypedDict):
    """Files that xpipe wrote, or is about to write, into a run folder."""

    written: list[EntryContent]


def write_journal(out: str, entries: Iterable[FileEntry]) -> None:
    """Record the files before they are written, so that a killed export leaves no file off record."""
    files.write_bytes(files.join(out, JOURNAL), dump_json({"written": [entry.to_json() for entry in entries]}))


def close_journal(out: str) -> None:
    """Remove the journal. Its content is in results.json by now."""
    files.remove(files.join(out, JOURNAL))


def read_record(out: str) -> list[FileEntry]:
    """The files that xpipe wrote into a run folder, as far as they are on record. Every path stays inside the folder.

    A record that cannot be read, or that an older xpipe wrote, counts as empty: then nothing there is ours to remove.
    """
    found: list[FileEntry] = []
    for name in (RESULTS, JOURNAL):
        path = files.join(out, name)
        if kind_of(path) == "file":
            with contextlib.suppress(DataError):
                found += map(entry_from, read_json(path, Journal, allow_nan=True)["written"])
    return [entry for entry in found if top_of(entry.path) not in OWN]


def top_of(path: str) -> str:
    """The first name of a path in the run folder: the output that the file belongs to."""
    return path.partition("/")[0]
