"""One thread for each library while work is executed, and the user's own numbers back afterwards."""

from __future__ import annotations

import _ctypes
import ctypes
import json
import os
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.linalg
import threadpoolctl
from threadpoolctl import threadpool_info, threadpool_limits

from tests import work
from tests.engine.test_cluster import calls
from xpipe.engine.cluster.calls import execute
from xpipe.ground.library_threads import ONE_THREAD, one_thread_each, while_executing

LONGEST = 600


def numbers(api="blas"):
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == api]


@pytest.fixture
def three_threads():
    """A user who wants three: more than one on any machine."""
    assert np.ones(2) @ scipy.linalg.inv(np.eye(2)) @ np.ones(2) == 2  # both libraries are loaded
    with threadpool_limits(3):
        yield


def test_one_inside_and_as_before_outside(three_threads):
    assert set(numbers()) == {3}
    with while_executing():
        assert set(numbers()) == {1}
        assert {os.environ[name] for name in ONE_THREAD} == {"1"}
        with one_thread_each():
            assert set(numbers()) == {1}
        assert set(numbers()) == {1}
    assert set(numbers()) == {3}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere nobody counts what is loaded")
def test_libraries_are_looked_for_again_only_when_one_was_loaded(tmp_path, monkeypatch):
    looks, real = [], threadpoolctl.ThreadpoolController
    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", lambda: looks.append(1) or real())
    with one_thread_each():
        looks.clear()
    with one_thread_each():
        assert looks == []
        ctypes.CDLL(shutil.copy(_ctypes.__file__, tmp_path / "loaded_only_now.so"))
        with one_thread_each():
            assert looks == [1]
    assert looks == [1]


def test_the_environment_is_the_users_again(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    with pytest.raises(ZeroDivisionError), while_executing():
        1 / 0  # noqa: B018
    assert os.environ["OMP_NUM_THREADS"] == "5"
    assert "MKL_NUM_THREADS" not in os.environ


def test_whoever_leaves_first_does_not_lift_the_limit(three_threads):
    entered, leave = threading.Event(), threading.Event()

    def other():
        with while_executing():
            entered.set()
            leave.wait(LONGEST)

    thread = threading.Thread(target=other)
    with while_executing():
        thread.start()
        assert entered.wait(LONGEST)
    assert set(numbers()) == {1}  # the other still computes
    assert os.environ["OMP_NUM_THREADS"] == "1"
    leave.set()
    thread.join(LONGEST)
    assert set(numbers()) == {3}


def test_every_thread_that_executes_has_one_thread_of_torch(tmp_path):
    """OpenMP and PyTorch keep a number for each thread: one that used three before has to be limited itself."""
    torch = pytest.importorskip("torch")
    found = {}
    ready = threading.Barrier(3, timeout=LONGEST)

    def worker(number):
        before = torch.get_num_threads()
        torch.set_num_threads(3)
        torch.ones(300, 300) @ torch.ones(300, 300)
        ready.wait()
        (call,) = calls(work.count_library_threads, tmp_path / str(number), 1, work.Settings(seconds=0))
        found[number] = execute(call).receipts["u0"].result.threads
        ready.wait()
        torch.set_num_threads(before)

    threads = [threading.Thread(target=worker, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST)
    assert len(found) == 3
    for threads_of in found.values():
        assert set(threads_of.values()) == {1}


LATE = """
import json, os, sys
from tests import work
from tests.engine.test_cluster import calls
from xpipe.engine.cluster.calls import execute
heavy = [name for name in ("torch", "scipy.linalg") if name in sys.modules]
(call,) = calls(work.count_library_threads, sys.argv[1], 1, work.Settings(0, ("numpy", "scipy.linalg", "torch")))
inside = execute(call).receipts["u0"].result.threads
import threadpoolctl, torch
after = [library["num_threads"] for library in threadpoolctl.threadpool_info()] + [torch.get_num_threads()]
print(json.dumps([heavy, inside, after, os.environ["OMP_NUM_THREADS"]]))
"""


def test_a_library_loaded_inside_starts_with_one_thread(tmp_path):
    pytest.importorskip("torch")
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), **dict.fromkeys(ONE_THREAD, "2")}
    done = subprocess.run(
        [sys.executable, "-c", LATE, str(tmp_path)], env=environment, capture_output=True, text=True, check=True,
        timeout=LONGEST,
    )  # fmt: skip
    heavy, inside, after, variable = json.loads(done.stdout)
    assert heavy == []
    assert len(inside) >= 3
    assert set(inside.values()) == {1}
    assert set(after) == {2}  # what the user asked for
    assert variable == "2"


def test_the_command_line_starts_with_one_thread():
    code = "import sys; sys.argv = ['xpipe', 'synth', 'no-such-dataset', 'x']; from xpipe.cli.main import main\n"
    code += "try:\n    main()\nexcept SystemExit:\n    pass\n"
    code += "import numpy, threadpoolctl; print([lib['num_threads'] for lib in threadpoolctl.threadpool_info()])"
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), **dict.fromkeys(ONE_THREAD, "2")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) == {1}
