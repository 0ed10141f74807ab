"""Receipts: one small sealed file per finished unit of a stage that is being built, so that a later run can resume.

Knows nothing of what a unit does. A receipt is written after the files of its unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from typing_extensions import TypedDict

from xpipe.engine import sources
from xpipe.engine.manifest import EntryContent, file_damage
from xpipe.engine.messages import Finished, entry_from
from xpipe.engine.sealed import seal, unseal
from xpipe.engine.sources import Source
from xpipe.errors import DataError
from xpipe.ground import files
from xpipe.ground.checked_json import from_plain, to_plain

R = TypeVar("R")
RECEIPTS = "receipts"


class ReceiptContent(TypedDict):
    """A receipt as its file holds it."""

    files: list[EntryContent]
    result: Any
    unsettled: list[list[int | str] | None]  # stamps of input files that were too new to prove their content


def write_receipt(
    folder: str, step: str, unit: str, finished: Finished[Any], sources_read: Sequence[Source] = ()
) -> None:
    """Record a unit as finished. `sources_read` are the input files that it read."""
    content = {
        "files": [entry.to_json() for entry in finished.files],
        "result": to_plain(finished.result),
        "unsettled": sources.unsettled(sources_read),
    }
    files.write_bytes(files.join(folder, RECEIPTS, step, unit + ".json"), seal(content))


def count_receipts(folder: str) -> int | None:
    """How many units of an unfinished stage are done. None where no unit of it was ever finished."""
    receipts = files.join(folder, RECEIPTS)
    if not files.is_folder(receipts):
        return None
    return sum(name.endswith(".json") for name in files.walk(receipts))


def read_receipts(
    folder: str,
    step: str,
    result: type[R],
    sources_now: Sequence[Source] = (),
    on_other_shape: Callable[[str], None] = lambda unit: None,
) -> dict[str, Finished[R]]:
    """The receipts of a step's units that are finished and undamaged, by the name of the unit.

    result: the type of what a unit of this step returns. on_other_shape: called with the name of each unit whose
    receipt holds something else, for example because another release wrote it. Such a unit has to be done again. A unit
    that read an input file in the moment the file was made counts as finished only while that file is the same.
    """
    receipts: dict[str, Finished[R]] = {}
    now = [None if source.stamp is None else list(source.stamp) for source in sources_now]
    for name in files.listing(files.join(folder, RECEIPTS, step)):
        if not name.endswith(".json") or name.startswith("."):
            continue
        path, unit = files.join(folder, RECEIPTS, step, name), name.removesuffix(".json")
        receipt = unseal(path, ReceiptContent)
        if receipt is None or any(stamp is None or stamp not in now for stamp in receipt["unsettled"]):
            continue
        entries = tuple(entry_from(entry) for entry in receipt["files"])
        if any(file_damage(folder, entry) for entry in entries):
            continue
        try:
            receipts[unit] = Finished(entries, from_plain(receipt["result"], result, where=path))
        except DataError:
            on_other_shape(unit)
    return receipts
