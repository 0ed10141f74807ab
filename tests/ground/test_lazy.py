"""Public names: those of the stubs exist, imports are late, old names give a warning."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import xpipe
from xpipe.ground.moved import MOVED

TOP = Path(xpipe.__file__).parent
STUBS = sorted(TOP.rglob("__init__.pyi"))
HEAVY = ("numpy", "scipy", "numba", "torch", "pyarrow", "dask", "distributed", "pydantic")


def room_of(stub: Path) -> str:
    return ".".join(stub.parent.relative_to(TOP.parent).parts)


def names_of(stub: Path) -> list[str]:
    """What a stub exports; each name is imported as itself, which type checkers take for an export."""
    found = []
    for node in ast.parse(stub.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            assert all(alias.name == alias.asname for alias in node.names), ast.unparse(node)
            found += [alias.name for alias in node.names]
    return found


@pytest.mark.parametrize("stub", STUBS, ids=room_of)
def test_every_listed_name_is_there(stub):
    room = importlib.import_module(room_of(stub))
    names = names_of(stub)
    assert len(names) == len(set(names))
    assert sorted(room.__all__) == sorted(names)
    assert set(names) <= set(dir(room))
    for name in names:
        assert getattr(room, name) is not None


def test_importing_the_rooms_imports_nothing_heavy():
    rooms = ", ".join(room_of(stub) for stub in STUBS)
    code = f"import {rooms}, sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_modules_of_a_room_are_attributes():
    code = "import xpipe; print(xpipe.formats.parquet.read_split.__name__, xpipe.formats.parts.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["read_split", "xpipe.formats.parts"]


@pytest.mark.parametrize("stub", STUBS, ids=room_of)
def test_what_is_not_there(stub):
    room = importlib.import_module(room_of(stub))
    with pytest.raises(AttributeError, match=f"module '{room.__name__}' has no attribute 'no_such_name'"):
        _ = room.no_such_name


@pytest.mark.parametrize("stub", STUBS, ids=room_of)
def test_old_names_of_a_room_give_the_new_ones_with_a_warning(stub):
    room = importlib.import_module(room_of(stub))
    for old, new in getattr(room, "OLD_NAMES", {}).items():
        with pytest.warns(DeprecationWarning, match=f"{room.__name__}.{old} is {room.__name__}.{new} now") as caught:
            found = getattr(room, old)
        assert found is getattr(room, new)
        assert caught[0].filename == __file__


OLD_MODULES = f"""
import importlib, warnings
for old, new in {MOVED!r}.items():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module = importlib.import_module("xpipe." + old)
    said = [str(one.message) for one in caught if one.category is DeprecationWarning]
    assert any(text.startswith(f"xpipe.{{old}} is xpipe.{{new}} now") for text in said), (old, said)
    assert module is importlib.import_module("xpipe." + new), old
"""


def test_old_modules_give_the_new_ones_with_a_warning():
    done = subprocess.run([sys.executable, "-c", OLD_MODULES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
