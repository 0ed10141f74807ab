"""Tables of `xpipe owners`: a group, a label, the doubtful owners, and an overview. Reads owners/ in pieces.

Computes no figure: chances come from owners/, expected quality from results.json.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xpipe.cli.console import SYNTHETIC, new_console, new_table, print_table
from xpipe.engine.results import stages_used
from xpipe.errors import ConfigError
from xpipe.formats.owner_files import read_owners
from xpipe.formats.parquet_files import read_columns
from xpipe.ground import files
from xpipe.ground.close_match import did_you_mean

STORE = ".store"  # beside the folders of runs, unless a pipeline says otherwise
STORED_READ = re.compile(r"read-[0-9a-z]+")  # a name alone: it leads to no other place
LONGEST_TEXT = 60  # characters of a text that a table shows
FIGURES = {"precision": "precision", "recall": "recall", "f1": "F1"}


class Owner(NamedTuple):
    """One row of owners/."""

    row: int
    id: str | None
    group: str
    label: int
    name: str | None
    chance: float | None

    @property
    def who(self) -> str:
        """The id, or the row number."""
        return str(self.row) if self.id is None else self.id

    @property
    def what(self) -> str:
        """The name of the label, or its number."""
        return str(self.label) if self.name is None else self.name

    @property
    def sureness(self) -> float:
        """The chance, for sorting; owners without one come last."""
        return -1.0 if self.chance is None else self.chance


def texts_of_rows(folder: str, rows: set[int]) -> dict[int, str]:
    """The texts of some rows, where the run was made from texts and its store lies in its usual place, beside it.

    folder: owners/ of the run. This is the one place where `xpipe owners` gets its texts from: the artifact `texts` of
    stage read, with the columns `sample` and `text`. One part is in memory at a time.
    """
    run = files.parent(folder)
    used = next((name for name in stages_used(run) if STORED_READ.fullmatch(name)), None)
    parts = files.join(files.parent(run), STORE, used, "texts", "split=train") if used else ""
    found: dict[int, str] = {}
    for name in files.listing(parts) if used else []:
        table = read_columns(files.join(parts, name), [("sample", pa.int64()), ("text", pa.string())])
        wanted = table.filter(pc.is_in(table["sample"], pa.array(sorted(rows), pa.int64())))
        found.update(zip(wanted["sample"].to_pylist(), wanted["text"].to_pylist(), strict=True))
    return found


def show_group(folder: str, group: str, most: int) -> None:
    """Print the members of a group with their labels and chances."""
    found, groups = _matching(folder, "group", group)
    if not found:
        hint = did_you_mean(group, groups) or "groups have the names or numbers of owners/"
        raise ConfigError(f"no group {group!r} has owners in this run", where=folder, fix=hint)
    members = len({owner.row for owner in found})
    _print(folder, found[:most], f"group {group}: {members:,} members own {len(found):,} labels", ("label",))
    _say_more(len(found) - most)


def show_label(folder: str, label: str, most: int) -> None:
    """Print the owners of a label, the surest first."""
    found, names = _matching(folder, "name", label)
    if not found and label.isdecimal() and int(label) < 2**31:
        found, _ = _matching(folder, "label", int(label))
    if not found:
        hint = did_you_mean(label, names) or "labels have the names or numbers of owners/"
        raise ConfigError(f"nobody owns a label {label!r} in this run", where=folder, fix=hint)
    found.sort(key=lambda owner: (-owner.sureness, owner.row))
    number = "" if found[0].name is None else f" (label {found[0].label})"
    _print(folder, found[:most], f"{found[0].what}{number}: {len(found):,} owners", ("group",))
    _say_more(len(found) - most)


def show_doubtful(folder: str, count: int) -> None:
    """Print the owners with the lowest chances."""
    found: list[Owner] = []
    for piece in read_owners(folder):
        known = piece.filter(piece["chance"].is_valid())
        lowest = np.argsort(known["chance"].to_numpy(), kind="stable")[:count]
        found = sorted(
            [*found, *_owners(known.take(lowest))], key=lambda owner: (owner.sureness, owner.row, owner.label)
        )
        del found[count:]
    if not found:
        raise ConfigError(
            "the owners of this run have no chances", where=folder, why="the method that chose them gives none",
            fix="assign: {method: discriminative}",
        )  # fmt: skip
    _print(folder, found, f"the {len(found):,} owners with the lowest chances", ("group", "label"))


def show_overview(folder: str, results: dict[str, Any]) -> None:
    """Print how many owners there are, and how good they are expected to be."""
    groups: set[str] = set()
    labels: set[int] = set()
    total, n_rows, last = 0, 0, -1
    for piece in read_owners(folder):
        rows = piece["row"].to_numpy()  # ascending
        total += len(rows)
        n_rows += int(np.count_nonzero(np.diff(rows, prepend=last)))
        last = int(rows[-1]) if len(rows) else last
        groups.update(piece["group"].unique().to_pylist())
        labels.update(piece["label"].unique().to_pylist())
    console = new_console()
    console.print(f"{total:,} owners: {n_rows:,} rows, {len(groups):,} groups, {len(labels):,} labels")
    trust = results.get("trust")
    if trust:
        if trust["expected"] or trust["true"]:
            console.print(trust_table(trust))
        console.print(f"expected quality: {trust['why']}")
    if results["synthetic"]:
        console.print(SYNTHETIC, style="bold yellow")
    console.print("more: --group G, --label L, --doubtful 20")


def trust_table(trust: dict[str, Any]) -> Any:
    """How good the assigned labels are expected to be, beside the true figures where they are known."""
    expected, true = trust["expected"], trust["true"]
    columns = ["", *(["expected", "from", "to"] if expected else []), *(["true"] if true else [])]
    table = new_table(*columns, numbers=tuple(columns[1:]), title="how far to trust the assigned labels")
    for key, name in FIGURES.items():
        cells = [f"{expected[key][each]:.3f}" for each in ("value", "low", "high")] if expected else []
        table.add_row(name, *cells, *([f"{true[key]:.3f}"] if true else []))
    return table


def _owners(piece: pa.Table) -> list[Owner]:
    """The rows of a piece of owners/."""
    columns = [piece[name].to_pylist() for name in Owner._fields]
    return list(map(Owner._make, zip(*columns, strict=True)))


def _matching(folder: str, column: str, wanted: str | int) -> tuple[list[Owner], set[str]]:
    """(The owners with a value in a column, every other value of it). One piece is in memory at a time."""
    found: list[Owner] = []
    seen: set[str] = set()
    for piece in read_owners(folder):
        seen.update(str(value) for value in piece[column].unique().to_pylist() if value is not None)
        found += _owners(piece.filter(pc.equal(piece[column], pa.scalar(wanted, piece[column].type))))
    return found, seen


def _print(folder: str, found: list[Owner], title: str, what: tuple[str, ...]) -> None:
    """Print a table of owners. what: which of group and label have a column."""
    texts = texts_of_rows(folder, {owner.row for owner in found})
    sure = any(owner.chance is not None for owner in found)
    named = any(owner.id is not None for owner in found)
    columns = ["id" if named else "row", *what, *["chance"] * sure, *["text"] * bool(texts)]
    table = new_table(*columns, numbers=("row", "chance"))
    for owner in found:
        cells = {"group": owner.group, "label": owner.what}
        chance = "" if owner.chance is None else f"{owner.chance:.3f}"
        text = " ".join(texts.get(owner.row, "").split())
        shown = text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 3] + "..."
        table.add_row(owner.who, *(cells[each] for each in what), *[chance] * sure, *[shown] * bool(texts))
    console = new_console()
    console.print(title)  # as a title of the table it would be folded to the table's width
    print_table(table, drop=("text",), note="they are in the columns of your table")


def _say_more(left: int) -> None:
    """Say that there is more than the table shows."""
    if left > 0:
        new_console().print(f"and {left:,} more: --most N, or owners/ of the run")
