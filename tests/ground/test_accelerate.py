"""Compiled kernels: kept between processes, and never older than the files they were made from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from xpipe import errors
from xpipe.ground import accelerate, kernel_folder, private
from xpipe.ground.kernel_folder import kernel_stamp

CALL = "import sys; sys.path.insert(0, '.'); from xpipe.room._caller_numba import call; print(call(1.0))"
HELPER = """
from xpipe.ground.accelerate import jit

@jit
def helper(x):
    return {expression}
"""
CALLER = """
from xpipe.ground.accelerate import jit
from xpipe.{module} import helper

@jit
def call(x):
    return helper(x)
"""


def write_kernels(folder: Path, helper: str, expression: str) -> None:
    """A package with a helper kernel in the file `helper`, and a kernel of a room that calls it."""
    ground = folder / "xpipe" / "ground"
    room = folder / "xpipe" / "room"
    for package in (folder / "xpipe", ground, room):
        package.mkdir(exist_ok=True)
        (package / "__init__.py").touch()
    shutil.copy(errors.__file__, folder / "xpipe" / "errors.py")
    for module in (accelerate, kernel_folder, private):
        shutil.copy(module.__file__, ground)
    (folder / "xpipe" / helper).write_text(HELPER.format(expression=expression))
    (room / "_caller_numba.py").write_text(CALLER.format(module=helper.removesuffix(".py").replace("/", ".")))


def call(folder: Path) -> str:
    chosen = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    chosen["XDG_CACHE_HOME"] = str(folder.parent / "cache")
    command = [sys.executable, "-c", CALL]
    done = subprocess.run(command, cwd=folder, env=chosen, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def compiled(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in (folder / "cache").rglob("*.nbc")}


@pytest.mark.parametrize("helper", ["room/_helper_numba.py", "ground/_helper_numba.py"])
def test_an_edited_helper_reaches_its_callers(tmp_path, helper):
    first, again = tmp_path / "first", tmp_path / "again"
    first.mkdir()
    write_kernels(first, helper, "x + 1")
    assert call(first) == "2.0"
    kept = compiled(tmp_path)
    assert any(path.name.startswith("_caller_numba.call") for path in kept)
    again.mkdir()
    write_kernels(again, helper, "x + 1")  # the same release in another place, and newer files
    assert call(first) == call(again) == "2.0"
    assert compiled(tmp_path) == kept  # nothing compiled again
    write_kernels(first, helper, "x + 20")
    assert call(first) == "21.0"
    assert call(again) == "2.0"


def test_kernels_that_nobody_uses_go(tmp_path):
    room = tmp_path / "room"
    room.mkdir()
    old, new = tmp_path / "home" / "room-old", tmp_path / "home" / "room-new"
    for folder in (old, new):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    used = kernel_folder.kernel_folder(room, str(tmp_path / "home"))
    assert sorted(os.listdir(tmp_path / "home")) == sorted([new.name, Path(used).name])


def test_the_stamp_sees_every_kernel_file_of_a_room(tmp_path):
    kernel = tmp_path / "_numba.py"
    kernel.write_text("a")
    before = kernel_stamp(tmp_path)
    (tmp_path / "other.py").write_text("b")
    assert kernel_stamp(tmp_path) == before
    (tmp_path / "_rows_numba.py").write_text("c")
    with_rows = kernel_stamp(tmp_path)
    kernel.write_text("ab")
    assert len({before, with_rows, kernel_stamp(tmp_path)}) == 3


def test_a_known_number_is_no_specialisation():
    @accelerate.jit
    def step(number):
        return number + 1

    @accelerate.jit
    def call(number):
        return step(0) + step(number)

    assert call(1) == 3
    assert len(step.step.signatures) == 1
    assert not step.whole.signatures  # what Python does not call has no entrance for it
