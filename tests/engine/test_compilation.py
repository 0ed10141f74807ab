"""Kernels are compiled beside the run, once per machine; what cannot be compiled there stops nobody."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.waiting import wait_for
from xpipe.engine import compilation
from xpipe.engine.compilation import Compilation, Kernels
from xpipe.ground import kernel_folder


def compile_first() -> None:
    leave("first")


def compile_second() -> None:
    leave("second")


def compile_nothing() -> None:
    raise ValueError


def compile_for_ever() -> None:
    leave("for ever")
    time.sleep(3600)


def leave(name: str) -> None:
    """What a compilation leaves behind: in this test, a line with its process."""
    with open(Path(os.environ["COMPILED"], name), "a") as file:
        file.write(f"{os.getpid()}\n")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPILED", str(tmp_path))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    kernel_folder.notes_folder.cache_clear()
    yield tmp_path
    kernel_folder.notes_folder.cache_clear()


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_all_that_the_run_still_needs_is_compiled_once(folder):
    before = Kernels("other", compile_for_ever)
    first, second = Kernels("a", compile_first), Kernels("a", compile_second)
    with Compilation([before, first, second]) as beside:
        assert not beside.is_ready(first)
        beside.wait_for(first)
        assert beside.is_ready(first)
        beside.wait_for(second)
    assert lines(folder / "first") == lines(folder / "second")  # one process: kernels of one room
    assert not (folder / "for ever").exists()  # of a stage that was in the store
    with Compilation([before, first, second]) as again:
        assert again.is_ready(first)
        again.wait_for(second)
    assert len(lines(folder / "first")) == 1


def test_kernels_that_cannot_be_compiled_are_left_to_the_stage(folder):
    broken, second = Kernels("a", compile_nothing), Kernels("b", compile_second)
    with Compilation([broken, second]) as beside:
        beside.wait_for(broken)
        beside.wait_for(second)
    assert not compilation._note(broken).exists()
    assert (folder / "second").exists()


def test_a_run_that_ends_early_leaves_no_process(folder):
    endless = Kernels("a", compile_for_ever)
    with Compilation([Kernels("b", compile_first), endless]) as beside:
        beside.wait_for(beside.wanted[0])
        wait_for(lambda: (folder / "for ever").exists() and lines(folder / "for ever"))
        assert not beside.is_ready(endless)
    pid = int(lines(folder / "for ever")[0])
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"))
