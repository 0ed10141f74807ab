"""A run on a disk that is too small, in a process of its own: its limits hold for everything the process writes.

    python -m tests.small_disk FILE limit SIZE...    no file may be larger than SIZE bytes: one run per size
    python -m tests.small_disk FILE full             run k finds the disk full at its k-th file, until a run ends well
    python -m tests.small_disk FILE stages NAME...   per stage, a run finds the disk full at its first file

Prints one line per run, as JSON: what was asked, the exit code, the last stage that had begun, the error.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from xpipe import config
from xpipe.engine import execute
from xpipe.ground import backend
from xpipe.ground.os_errors import last_resort


class Told:
    """A progress that remembers the last stage."""

    stage_name = "none"

    def stage(self, name: str, **_: object) -> Told:
        self.stage_name = name
        return self

    def expect(self, *_: object, **__: object) -> None: ...

    begin = advance = done = note = warn = expect


@contextmanager
def limited(size: int) -> Iterator[None]:
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


@contextmanager
def full_when(is_full: Callable[[], bool]) -> Iterator[None]:
    """Every file is synced before it gets its name: that fails whenever the disk is full."""
    sync = os.fsync

    def refuse(descriptor: int) -> None:
        if is_full():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    os.fsync = refuse
    try:
        yield
    finally:
        os.fsync = sync


def run_once(path: str, asked: int | str, told: Told | None = None) -> int:
    told, error = told or Told(), ""
    try:
        execute.run(config.load(path), told, backend.choose("cpu"), concluding=False)
        code = 0
    except Exception as problem:
        explained = last_resort(problem)
        code, error = (70, repr(problem)) if explained is None else (explained.exit_code, str(explained))
    print(json.dumps({"asked": asked, "code": code, "stage": told.stage_name, "error": error}), flush=True)
    return code


def main(path: str, mode: str, *asked: str) -> None:
    if mode == "limit":
        for size in map(int, asked):
            with limited(size):
                run_once(path, size)
    elif mode == "stages":
        for name in asked:
            told = Told()
            with full_when(lambda told=told, name=name: told.stage_name == name):
                run_once(path, name, told)
    else:
        for number in range(1, 500):
            files = itertools.count(1)
            with full_when(lambda files=files, number=number: next(files) >= number):
                code = run_once(path, number)
            if code == 0:
                return


if __name__ == "__main__":
    main(*sys.argv[1:])
