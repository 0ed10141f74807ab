"""The layout: which room may import which. Reads the syntax trees of all files, imports inside functions included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent / "xpipe"
# From the top to the ground. A room may import rooms of lower floors. It imports no room of a higher floor, and no
# other room of its own floor. `docs/architecture.md` draws this picture.
FLOORS = (
    ("__main__",),
    ("cli", "integrations"),
    ("config",),
    ("stages",),
    ("engine",),
    ("heads",),
    ("argmaxability", "metrics", "eagle", "trees", "synth", "text", "report"),
    ("formats",),
    ("grouping",),
    ("ground",),
    ("errors",),
)
FLOOR = {room: number for number, floor in enumerate(FLOORS) for room in floor}
MOST_ENTRIES = 20


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in TOP.rglob("*.py"):
        parts = path.relative_to(TOP.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(path: Path, known: dict[str, Path]) -> Iterator[tuple[str, int]]:
    """(module of the package, line) of every import, wherever it stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} is a relative import"
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in known else str(node.module) for name in inside]
        else:
            continue
        yield from ((name, node.lineno) for name in names if name.split(".")[0] == "xpipe")


def room_of(module: str) -> str:
    """The room of a module: the second part of its dotted name."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def test_every_room_has_its_floor():
    rooms = {room_of(name) for name in modules()} - {"__init__"}
    assert rooms == set(FLOOR)


def test_few_entries_at_the_top():
    entries = [path.name for path in TOP.iterdir() if path.name != "__pycache__"]
    assert len(entries) <= MOST_ENTRIES, entries


def test_imports_go_down():
    known = modules()
    wrong = [
        f"{path.relative_to(TOP.parent)}:{line} imports {target}"
        for name, path in known.items()
        for target, line in imports_of(path, known)
        if name != "xpipe"
        and target != "xpipe"
        and room_of(target) != room_of(name)
        and FLOOR[room_of(target)] <= FLOOR[room_of(name)]
    ]
    assert wrong == []


def test_no_modules_import_each_other_in_a_circle():
    known = modules()
    targets = {
        name: {target for target, _ in imports_of(path, known) if target != name and target in known}
        for name, path in known.items()
    }
    state: dict[str, int] = {}

    def visit(name: str, way: list[str]) -> None:
        if state.get(name) == 2:
            return
        if state.get(name) == 1:
            pytest.fail(" -> ".join([*way[way.index(name) :], name]))
        state[name] = 1
        for target in sorted(targets[name]):
            visit(target, [*way, name])
        state[name] = 2

    for name in sorted(known):
        visit(name, [])


def test_no_table_is_read_by_threads_that_may_outlive_the_process():
    """`read_table` leaves such threads (see `formats.parquet_files.read_columns`), as do datasets of pyarrow."""
    wrong = []
    for path in modules().values():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in ("read_table", "read_pandas", "ParquetDataset"):
                wrong += [f"{path}:{node.lineno}"] if ast.unparse(node.value) in ("pq", "pyarrow.parquet") else []
            elif isinstance(node, ast.Import) and any(alias.name == "pyarrow.dataset" for alias in node.names):
                wrong.append(f"{path}:{node.lineno}")
    assert wrong == []
