"""CPU or GPU: with cupy and no device, without cupy, with a GPU that passes, and with trials that go wrong."""

from __future__ import annotations

import json
import logging
import pickle
import subprocess
import sys
import types

import numpy
import pytest
import scipy.sparse

from tests.waiting import LIMIT
from xpipe.errors import BackendError, ConfigError
from xpipe.ground import backend
from xpipe.ground.backend import Backend, Probe, choose

FOUND = Probe(True, "cupy 14 ran its trial kernels on Some GPU, 8.0 GiB", "Some GPU, 8.0 GiB")


@pytest.fixture
def no_device():
    if backend.probe().usable:
        pytest.skip("this machine has a working GPU")


@pytest.mark.usefixtures("no_device")
def test_auto_without_device_is_the_cpu_and_says_why(caplog):
    with caplog.at_level(logging.INFO, logger="xpipe"):
        chosen = choose("auto")
    assert chosen.name == "cpu"
    assert "cupy" in chosen.reason
    assert "\n" not in chosen.reason
    assert [record.getMessage() for record in caplog.records] == [f"backend: cpu ({chosen.reason})"]


@pytest.mark.usefixtures("no_device")
def test_gpu_without_device_is_an_error_that_ends_with_an_action():
    with pytest.raises(BackendError) as caught:
        choose("gpu")
    assert caught.value.exit_code == 6
    assert caught.value.why == backend.probe().reason
    assert "--set backend=auto" in caught.value.fix


def test_cpu_is_not_probed(monkeypatch):
    monkeypatch.setattr(backend, "probe", lambda: pytest.fail("probed"))
    chosen = choose("cpu")
    assert (chosen.name, chosen.reason, chosen.array_module, chosen.sparse_module) == (
        "cpu", "asked for", numpy, scipy.sparse
    )  # fmt: skip


def test_unknown_word():
    with pytest.raises(ConfigError, match="`backend` must be one of auto, cpu, gpu, got 'cuda'"):
        choose("cuda")


def test_probe_runs_once_a_process():
    assert backend.probe() is backend.probe()


@pytest.mark.parametrize("requested", ["auto", "gpu"])
def test_gpu_that_passes_its_probe(monkeypatch, requested):
    modules = {name: types.ModuleType(name) for name in ("cupy", "cupyx", "cupyx.scipy", "cupyx.scipy.sparse")}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    modules["cupy"].cuda = types.SimpleNamespace(runtime=types.SimpleNamespace(getDeviceCount=lambda: 1))
    monkeypatch.setattr(backend, "probe", lambda: FOUND)
    chosen = choose(requested)
    assert (chosen.name, chosen.reason) == ("gpu", FOUND.reason)
    assert chosen.array_module is modules["cupy"]
    assert chosen.sparse_module is modules["cupyx.scipy.sparse"]
    expected = {"name": "gpu", "requested": requested, "reason": FOUND.reason, "device": "Some GPU, 8.0 GiB"}
    assert json.loads(json.dumps(chosen.summary())) == expected


@pytest.mark.parametrize("count", [None, 0])
def test_a_worker_without_the_device_of_the_run_says_so(monkeypatch, count):
    """The trial passed where the run began; a worker elsewhere has no cupy, or no device."""
    module = types.ModuleType("cupy") if count is not None else None
    if module is not None:
        module.__version__ = "14.2"
        module.cuda = types.SimpleNamespace(runtime=types.SimpleNamespace(getDeviceCount=lambda: count))
    monkeypatch.setitem(sys.modules, "cupy", module)  # None: the import fails
    with pytest.raises(BackendError, match="this process cannot use one") as caught:
        Backend("gpu", "its trial ran elsewhere").array_module  # noqa: B018
    assert caught.value.exit_code == 6
    assert caught.value.why == ("cupy 14.2 finds no CUDA device" if module else caught.value.why)
    assert "backend=cpu" in caught.value.fix


def test_travels_to_workers():
    assert pickle.loads(pickle.dumps(Backend("cpu", "asked for"))) == Backend("cpu", "asked for")


def test_absent_cupy_names_the_extra():
    code = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "cupy":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocker())
from xpipe.ground.backend import choose
print(choose("auto").reason)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "cupy is not installed: pip install 'xpipe[gpu]'"


def test_import_needs_no_array_library():
    heavy = ("numpy", "cupy", "scipy")
    code = f"import sys, xpipe.ground.backend; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---------------------------------------------------------------- trials that go wrong


def trial(code: str, seconds: float = LIMIT) -> Probe:
    return backend._try_in_process([sys.executable, "-c", code], seconds)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended with signal 11"),
        ("raise SystemExit('driver is upset')", "ended with exit code 1: driver is upset"),
        ("print('hello')", "an answer that cannot be read: 'hello'"),
        ("print('[1]')", "an answer that cannot be read"),
        ("pass", "an answer that cannot be read: ''"),
    ],
)
def test_failing_trial_becomes_a_reason(code, reason):
    found = trial(code)
    assert not found.usable
    assert reason in found.reason


def test_noise_before_the_answer_is_ignored():
    assert trial(f"print('CUDA says hello'); print({json.dumps(vars(FOUND))!r})") == FOUND


def test_hanging_trial_is_ended():
    found = trial("import time; time.sleep(3600)", seconds=0.5)
    assert found == Probe(False, "the GPU trial gave no answer within 0.5 s (hanging driver?)")


def test_trial_that_cannot_start():
    assert "could not be started" in backend._try_in_process(["/no/such/python"], 1.0).reason


def test_long_reasons_are_cut():
    assert len(trial("raise SystemExit('x' * 5000)").reason) == backend.LONGEST_REASON


# ---------------------------------------------------------------- the trial itself, on a pretended device


def pretend_device(monkeypatch, devices: int = 1, dense_error: int = 0, sparse_error: int = 0) -> None:
    """numpy and scipy in cupy's clothes, with kernels that are off by some number where asked."""
    runtime = types.SimpleNamespace(
        getDeviceCount=lambda: devices,
        getDeviceProperties=lambda number: {"name": b"Some GPU", "totalGlobalMem": 8 * 2**30},
    )
    cupy = types.ModuleType("cupy")
    cupy.__version__ = "14"
    cupy.arange = lambda *args, dtype: numpy.arange(*args, dtype=dtype) + (dense_error if dtype == "float64" else 0)
    cupy.cuda = types.SimpleNamespace(runtime=runtime)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    sparse = types.ModuleType("cupyx.scipy.sparse")
    sparse.csr_matrix = lambda *args, shape: scipy.sparse.csr_matrix(*args, shape=shape) * (1 + sparse_error)
    monkeypatch.setitem(sys.modules, "cupyx.scipy.sparse", sparse)


def test_trial_passes(monkeypatch):
    pretend_device(monkeypatch)
    assert backend.try_device() == FOUND


def test_trial_counts_devices(monkeypatch):
    pretend_device(monkeypatch, devices=0)
    assert backend.try_device() == Probe(False, "cupy 14 finds no CUDA device")


@pytest.mark.parametrize("wrong", ["dense_error", "sparse_error"])
def test_trial_checks_the_numbers(monkeypatch, wrong):
    pretend_device(monkeypatch, **{wrong: 1})
    assert backend.try_device() == Probe(False, "cupy 14 computes wrong sums on this device")


def test_trial_with_a_cupy_that_does_not_import(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert backend.try_device().reason.startswith("cupy is installed but does not import: ModuleNotFoundError")
