"""What is known of each worker: versions, memory, cores, whether it sees the store, its clock; and these in one table.

Asks nobody: `check` does. Workers of one machine with the same facts share a row.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from xpipe.ground import machine
from xpipe.ground.quantities import format_bytes
from xpipe.ground.release import __version__

LIBRARIES = ("numpy", "numba", "scipy", "pyarrow", "torch", "safetensors", "dask", "distributed")
SHOWN = ("xpipe", "python", "numpy", "numba", "distributed")  # columns of the table
CLOCK_SECONDS = 5.0  # clocks may differ so much before it is said
MOST_ROWS = 40  # of a table; rows that differ are always shown
HERE = "this process"


@dataclass(frozen=True)
class WorkerFacts:
    """One worker, or this process. clock: how many seconds its clock is ahead. reason: why it gets no work, or ""."""

    address: str
    host: str
    versions: Mapping[str, str]
    memory: int
    cores: int
    sees_store: bool = True
    clock: float = 0.0
    doubt: float = 0.0  # seconds by which `clock` may be wrong: the question was under way so long
    reason: str = ""
    others: int = field(default=0, compare=False)  # further workers with the same facts

    @property
    def clock_differs(self) -> bool:
        """Whether the clock is wrong by more than the question's own time can explain."""
        return abs(self.clock) - self.doubt > CLOCK_SECONDS


def versions_here() -> dict[str, str]:
    """The versions of xpipe, Python and the libraries of this process, without those that are not installed."""
    found = {"xpipe": __version__, "python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def facts_here(memory: int) -> WorkerFacts:
    """This process, to compare with. memory: what a worker should have."""
    return WorkerFacts(HERE, platform.node(), versions_here(), memory, machine.usable_cores())


def table(workers: Sequence[WorkerFacts], here: WorkerFacts) -> str:
    """One table of all workers, below a row for this process.

    Examples
    --------
    >>> here = facts_here(4 * 2**30)
    >>> print(table([here], here).splitlines()[0].split()[:4])
    ['workers', 'on', 'xpipe', 'python']
    """
    rows = [_cells(one, "here" if one is here else "") for one in (here, *_cut(_grouped(workers), here))]
    heads = ("workers", "on", *SHOWN, "memory", "cores", "store", "clock", "work")
    widths = [max(len(cell) for cell in column) for column in zip(heads, *rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (heads, *rows)]
    hidden = len(_grouped(workers)) + 1 - len(rows)
    return "\n".join(line.rstrip() for line in lines) + (f"\nand {hidden} more rows without differences" * (hidden > 0))


def differences(workers: Iterable[WorkerFacts], here: WorkerFacts, told: set[str]) -> list[str]:
    """One sentence for each thing in which workers that get work differ from this process. told: what was said before.

    Whatever would change a byte is a reason to get no work (`check.misfit`), so nothing here does.
    """
    found: dict[str, set[str]] = {}
    for one in workers:
        if one.reason:
            continue
        for name, version in one.versions.items():
            if version != here.versions.get(name):
                known = here.versions.get(name, "without it")
                found.setdefault(f"{name} {version}, this process has {known}", set()).add(one.host)
        if one.memory and one.memory < here.memory:
            text = f"{format_bytes(one.memory)}, less than cluster.memory_limit ({format_bytes(here.memory)})"
            found.setdefault(f"{text}, for which tasks are cut", set()).add(one.host)
        if one.clock_differs:
            found.setdefault(f"a clock that is wrong by {one.clock:+.0f} s", set()).add(one.host)
    new = {text: hosts for text, hosts in found.items() if text not in told}
    told.update(new)
    return [f"workers on {_named(hosts)} have {text}" for text, hosts in new.items()]


def joined(workers: Sequence[WorkerFacts], here: WorkerFacts) -> list[str]:
    """One line for each row that workers which join later would have in the table."""
    lines = []
    for one in _grouped(workers):
        same = all(one.versions.get(name) == here.versions.get(name) for name in SHOWN)
        versions = "same versions" if same else ", ".join(f"{name} {one.versions.get(name, '-')}" for name in SHOWN)
        count = f"{one.others + 1} workers" if one.others else "a worker"
        memory, cores, store, clock, work = _cells(one)[len(SHOWN) + 2 :]
        lines.append(
            f"{count} joined on {one.host}: {versions}, memory {memory}, cores {cores}, store {store}, clock {clock}"
            + ("" if work == "yes" else "; gets no work")
        )
    return lines


def _grouped(workers: Iterable[WorkerFacts]) -> list[WorkerFacts]:
    """Workers of one host with equal facts as one, in the order in which they came. Clocks that are right are equal."""
    groups: dict[Any, list[WorkerFacts]] = {}
    for one in workers:
        clock = round(one.clock) if one.clock_differs else 0
        versions = tuple(sorted(one.versions.items()))
        key = (one.host, versions, one.memory, one.cores, one.sees_store, clock, bool(one.reason))
        groups.setdefault(key, []).append(one)
    return [WorkerFacts(**{**vars(group[0]), "others": len(group) - 1}) for group in groups.values()]


def _cut(rows: list[WorkerFacts], here: WorkerFacts) -> list[WorkerFacts]:
    """The rows of a table that is not too long: those that differ, then the first ones."""
    odd = [one for one in rows if one.reason or differences([one], here, set())]
    shown = {id(one) for one in [*odd, *rows[: max(0, MOST_ROWS - len(odd))]]}
    return [one for one in rows if id(one) in shown]


def _cells(one: WorkerFacts, count: str = "") -> tuple[str, ...]:
    """The cells of a row."""
    return (
        count or str(one.others + 1),
        one.host,
        *(one.versions.get(name, "-") for name in SHOWN),
        format_bytes(one.memory) if one.memory else "no limit",
        str(one.cores or "?"),
        "sees it" if one.sees_store else "no",
        f"{one.clock:+.0f} s" if one.clock_differs else "ok",
        "-" if count else "no" if one.reason else "yes",
    )


def _named(hosts: set[str]) -> str:
    """The first hosts by name, and how many more there are."""
    first = sorted(hosts)[:3]
    return ", ".join(first) + (f" and {len(hosts) - len(first)} more" if len(hosts) > len(first) else "")
