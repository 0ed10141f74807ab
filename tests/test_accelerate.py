"""Compiled kernels: kept between processes, and never older than the files they were made from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import xpipe
from xpipe import accelerate
from xpipe.accelerate import kernel_stamp

CALL = "import sys; sys.path.insert(0, '.'); from xpipe.caller_numba import call; print(call(1.0))"
HELPER = """
from xpipe.accelerate import jit

@jit
def helper(x):
    return {expression}
"""
CALLER = """
from xpipe.accelerate import jit
from xpipe.helper_numba import helper

@jit
def call(x):
    return helper(x)
"""


def write_kernels(folder: Path, expression: str) -> None:
    package = folder / "xpipe"
    package.mkdir(exist_ok=True)
    shutil.copy(Path(xpipe.__file__).parent / "accelerate.py", package / "accelerate.py")
    (package / "__init__.py").touch()
    (package / "helper_numba.py").write_text(HELPER.format(expression=expression))
    (package / "caller_numba.py").write_text(CALLER)


def call(folder: Path) -> str:
    chosen = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    command = [sys.executable, "-c", CALL]
    done = subprocess.run(command, cwd=folder, env=chosen, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_an_edited_helper_reaches_its_callers(tmp_path):
    write_kernels(tmp_path, "x + 1")
    assert call(tmp_path) == "2.0"
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")}
    assert any(path.name.startswith("caller_numba.call") for path in kept)
    assert call(tmp_path) == "2.0"
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")} == kept  # nothing compiled again
    write_kernels(tmp_path, "x + 20")
    assert call(tmp_path) == "21.0"


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


@pytest.mark.parametrize("planted", ["nothing", "own", "link", "open", "file"])
def test_compiled_code_comes_from_nobody_else(tmp_path, planted):
    """Numba loads pickles: a folder below the temporary folder that another user may have filled is not used."""
    taken = tmp_path / f"xpipe-{os.getuid()}"
    (tmp_path / "elsewhere").mkdir()
    if planted == "own":
        taken.mkdir(mode=0o700)
    elif planted == "link":
        taken.symlink_to(tmp_path / "elsewhere")
    elif planted == "open":
        taken.mkdir()
        taken.chmod(0o777)
    elif planted == "file":
        taken.write_text("")
    found = Path(accelerate._own_folder(str(tmp_path)))
    assert (found == taken) == (planted in ("nothing", "own"))
    assert found.is_dir()
    assert found.stat().st_mode & 0o077 == 0
