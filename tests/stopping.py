"""The command line in a process that stops itself (SIGSTOP) at a given point, so that no test has to hit the moment.

    python -m tests.stopping WHAT COUNT run pipeline.yaml ...

WHAT is a part of a path: it stops when the COUNT-th file with it in its path has been written by this process; or
`advance`: when its progress has been told of COUNT finished tasks. Whoever waits sees the state T, then may kill it,
or send signals and SIGCONT.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tests.samples import start_xpipe
from tests.waiting import wait_for


def start_stopping(what: str, count: int, *arguments: object, **options) -> subprocess.Popen:
    """Start it and wait until it has stopped. It has ended instead where that point never came: then this fails."""
    process = start_xpipe(what, count, *arguments, module="tests.stopping", **options)
    wait_for(lambda: is_stopped(process.pid) or process.poll() is not None, f"a stop at {what}")
    assert process.poll() is None, f"it ended before {what} number {count}: {process.communicate()[0]}"
    return process


def is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):
        return False


def main(what: str, count: int, *arguments: str) -> None:
    from xpipe.cli import main as cli
    from xpipe.cli import progress
    from xpipe.ground import files

    left = [count]

    def tell() -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGSTOP)

    if what == "advance":
        advance = progress.Bar.advance

        def advance_and_tell(self: progress.Bar, *given: int) -> None:
            advance(self, *given)
            tell()

        progress.Bar.advance = advance_and_tell  # type: ignore[method-assign]
    else:
        open_write = files.open_write

        @contextlib.contextmanager
        def write_and_tell(path: str) -> Iterator[IO[bytes]]:
            with open_write(path) as stream:
                yield stream
            if what in path:
                tell()

        files.open_write = write_and_tell
    sys.argv = ["xpipe", *arguments]
    cli.main()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
