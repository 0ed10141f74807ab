"""Starts Python modules in new processes that need not import anything: forks of a template that has done so already.

    process = WarmPopen("xpipe", ["run", "pipeline.yaml"], stdout=subprocess.PIPE, text=True)

Starting an interpreter that imports numpy, SciPy, numba, Arrow and Dask takes seconds of processor time: most of what a
small run takes. The template pays them once. It has one thread and no state of any test, and each fork gets its own
arguments, environment, folder and streams. Signals, exit codes and open files are those of any process. Where the
system cannot pass open files to other processes, these are started in the plain way.

    python -m tests.warm_start DESCRIPTOR      the template, which is asked through an open socket
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import traceback
from typing import Any

from xpipe.ground.library_threads import ONE_THREAD

IMPORTED = (  # whatever most runs import, lazily or not
    "distributed", "numba", "numba.np.arraymath", "pyarrow.parquet", "pyarrow.compute", "scipy.sparse", "scipy.special",
    "rich.progress", "rich.table", "xpipe.cli.main", "xpipe.config", "xpipe.stages", "xpipe.engine.execute",
    "xpipe.engine.cluster.local", "xpipe.formats.statistics", "xpipe.synth.rows",
)  # fmt: skip
MOST_REQUEST = 1 << 20  # bytes: arguments and an environment


class WarmPopen(subprocess.Popen):
    """A module in a process of its own, forked from the template; otherwise as `subprocess.Popen` has it."""

    def __init__(self, module: str, arguments: list[str], **options: Any):
        self._module, self._status = module, -1
        super().__init__([sys.executable, "-m", module, *arguments], **options)

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest):
        if not hasattr(socket, "send_fds"):
            super()._execute_child(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest)
            return
        pipes, new_session = rest[3:9], bool(rest[14])
        child_in, _, _, child_out, _, child_error = pipes
        self._status, written = os.pipe()
        streams = [own if given == -1 else given for own, given in enumerate((child_in, child_out, child_error))]
        request = {
            "module": self._module, "arguments": args[3:], "folder": str(cwd or os.getcwd()),
            "environment": dict(os.environ if env is None else env), "new_session": new_session,
        }  # fmt: skip
        try:
            self.pid = _template().start(request, [*streams, written])
        finally:
            os.close(written)
            self._close_pipe_fds(*pipes)
        self._child_created = True

    def _internal_poll(self, _deadstate=None, **_):
        if self._status == -1:
            return super()._internal_poll(_deadstate) if self.returncode is None else self.returncode
        self._ended_within(0)
        return self.returncode

    def _wait(self, timeout):
        if self._status == -1:
            return super()._wait(timeout)
        if self.returncode is None and not self._ended_within(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def _ended_within(self, timeout: float | None) -> bool:
        """Whether it ends in this time: its keeper then writes how."""
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            told = os.read(self._status, 4)
            self.returncode = os.waitstatus_to_exitcode(struct.unpack("i", told)[0]) if told else -signal.SIGKILL
            os.close(self._status)
        return self.returncode is not None


class Template:
    """The process whose forks are started, and the socket to ask it."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for side in (self.socket, theirs):
            side.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_REQUEST)
        with theirs:
            command = [sys.executable, "-m", "tests.warm_start", str(theirs.fileno())]
            environment = {**os.environ, **ONE_THREAD}  # without threads, a fork is a whole copy
            self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)
        atexit.register(self.end)

    def start(self, request: dict[str, Any], descriptors: list[int]) -> int:
        """Fork; the number of the new process."""
        socket.send_fds(self.socket, [json.dumps(request).encode()], descriptors)
        answer = self.socket.recv(4)
        assert answer, "the template has ended"
        return int(struct.unpack("i", answer)[0])

    def end(self) -> None:
        self.socket.close()
        self.process.wait()


@functools.cache
def _template() -> Template:
    return Template()


def serve(descriptor: int) -> None:
    """Import, then fork whenever asked, until nobody can ask any more."""
    for name in IMPORTED:
        importlib.import_module(name)
    _load_registries()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests; forks have the usual answer
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for keepers
    with socket.socket(fileno=descriptor) as asked:
        while True:
            text, descriptors, _, _ = socket.recv_fds(asked, MOST_REQUEST, 4)
            if not text:
                return
            if os.fork() == 0:
                _keep(asked, json.loads(text), descriptors)
            for each in descriptors:
                os.close(each)


def _load_registries() -> None:
    """Load one compiled kernel: with the first one, numba reads its registries, which takes a second."""
    import numpy as np

    from xpipe.ground._splitmix_numba import hash_numbers

    hash_numbers(np.zeros(1, np.uint64), np.zeros(1, np.uint64))


def _keep(asked: socket.socket, request: dict[str, Any], descriptors: list[int]) -> None:
    """In a fork that stays beside the new process to tell how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, status = descriptors
    pid = os.fork()
    if pid == 0:
        asked.close()
        os.close(status)
        _become(request, streams)
    asked.send(struct.pack("i", pid))
    asked.close()
    for each in streams:
        os.close(each)
    for stream in (0, 1, 2):  # a pipe ends when the process does, not when its keeper does
        os.close(stream)
    os.write(status, struct.pack("i", os.waitpid(pid, 0)[1]))
    os._exit(0)


def _become(request: dict[str, Any], streams: list[int]) -> None:
    """In the new process: what an interpreter that is started with `-m` would do."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if request["new_session"]:
        os.setsid()
    for number, each in enumerate(streams):
        os.dup2(each, number)
    for each in streams:
        if each > 2:
            os.close(each)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.modules["dask"].config.refresh()  # these two read the environment when they are imported, or first used
    tempfile.tempdir = None
    os.chdir(request["folder"])
    sys.argv = ["-m", *request["arguments"]]
    encoding = os.environ.get("PYTHONIOENCODING") or None
    sys.stdin, sys.stdout = open(0, encoding=encoding), open(1, "w", encoding=encoding)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding=encoding, errors="backslashreplace")  # noqa: SIM115
    code = 1
    try:
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        _leave(code)


def _leave(code: int) -> None:
    """End as an interpreter does: threads, what was registered, streams."""
    import threading

    with contextlib.suppress(BaseException):
        threading._shutdown()
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
