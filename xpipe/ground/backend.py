"""CPU or GPU: runs a trial on the device before using it, keeps the reason, gives the array modules.

Holds no arithmetic of any stage, and imports neither numpy nor cupy until an array module is asked for.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import json
import logging
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHOICES = ("auto", "cpu", "gpu")
PROBE_SECONDS = 90.0  # a first CUDA context plus kernel compilation on a slow disk stays well below
LONGEST_REASON = 240
DEVICES = ("dev/nvidia[0-9]*", "dev/dxg", "proc/driver/nvidia/gpus/*")  # what a driver shows; dxg: in WSL

log = logging.getLogger("xpipe")


@dataclass(frozen=True)
class Probe:
    """The result of a trial of the GPU: `reason` is one line for people, `device` the name of a usable device."""

    usable: bool
    reason: str
    device: str | None = None


@dataclass(frozen=True)
class Backend:
    """The backend of a run. It holds plain text only, so it travels to workers; modules are imported on first use."""

    name: str  # cpu | gpu
    reason: str
    requested: str = "auto"
    device: str | None = None

    @property
    def is_news(self) -> bool:
        """Whether to tell people: a GPU is used, or this machine has one that cannot be used."""
        return self.name == "gpu" or (self.requested == "auto" and has_gpu())

    @property
    def array_module(self) -> Any:
        """numpy or cupy. Raises BackendError where this process, such as a worker elsewhere, cannot use the GPU."""
        return _cupy_with_device() if self.name == "gpu" else importlib.import_module("numpy")

    @property
    def sparse_module(self) -> Any:
        """scipy.sparse or cupyx.scipy.sparse."""
        return importlib.import_module("cupyx.scipy.sparse" if self.name == "gpu" else "scipy.sparse")

    def summary(self) -> dict[str, str | None]:
        """What `results.json` records of the backend."""
        return {"name": self.name, "requested": self.requested, "reason": self.reason, "device": self.device}


def choose(requested: str = "auto") -> Backend:
    """Decide between CPU and GPU.

    requested: "cpu" (no probe), "gpu" (must work), or "auto" (GPU when its probe passes, else CPU; logs the reason).
    Raises BackendError when "gpu" is asked for and cannot be used, ConfigError for any other word.
    """
    from xpipe.errors import BackendError, ConfigError

    if requested not in CHOICES:
        raise ConfigError(f"`backend` must be one of {', '.join(CHOICES)}, got {requested!r}")
    if requested == "cpu":
        return Backend("cpu", "asked for", requested)
    found = probe()
    if found.usable:
        chosen = Backend("gpu", found.reason, requested, found.device)
    elif requested == "gpu":
        raise BackendError(
            "`backend: gpu` was asked for, but no GPU can be used here",
            why=found.reason,
            fix="`--set backend=auto` goes on with the CPU; `xpipe doctor` shows what this machine has",
        )
    else:
        chosen = Backend("cpu", found.reason, requested)
    if requested == "auto":
        log.info("backend: %s (%s)", chosen.name, chosen.reason)
    return chosen


@functools.cache
def probe() -> Probe:
    """Try the GPU once per process: import cupy, count devices, run a dense and a sparse kernel, check the numbers.

    The trial runs in a process of its own, so that a driver that hangs or crashes does not stop the run.
    """
    if not _is_installed("cupy"):
        return Probe(False, "cupy is not installed: pip install 'xpipe[gpu]'")
    # -P: this file's folder must not shadow other packages while it runs as a script
    return _try_in_process([sys.executable, "-P", __file__], PROBE_SECONDS)


def _cupy_with_device() -> Any:
    """cupy, where it imports and finds a device here: the trial may have run on another machine."""
    from xpipe.errors import BackendError

    try:
        cupy = importlib.import_module("cupy")
        if cupy.cuda.runtime.getDeviceCount() > 0:
            return cupy
        why = f"cupy {cupy.__version__} finds no CUDA device"
    except Exception as error:  # a broken driver raises errors of many kinds
        why = _one_line(f"{type(error).__name__}: {error}")
    raise BackendError(
        "this run computes on a GPU, but this process cannot use one",
        why=why,
        fix="workers need a GPU and xpipe[gpu], or the run `--set backend=cpu`",
    )


def has_gpu() -> bool:
    """Whether the system shows a GPU for CUDA, usable or not."""
    return any(next(Path("/").glob(pattern), None) is not None for pattern in DEVICES)


def _is_installed(package: str) -> bool:
    """Whether a package can be imported."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def _try_in_process(command: list[str], seconds: float) -> Probe:
    """Run a trial that prints a Probe as JSON in its last line; every failure becomes the reason of a Probe."""
    try:
        trial = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
    except OSError as error:
        return Probe(False, _one_line(f"the GPU trial could not be started: {error}"))
    try:
        output, complaints = trial.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return Probe(False, f"the GPU trial gave no answer within {seconds:g} s (hanging driver?)")
    finally:
        _end(trial)
    if trial.returncode != 0:
        last = (complaints.strip().splitlines() or ["it said nothing"])[-1]
        how = f"signal {-trial.returncode}" if trial.returncode < 0 else f"exit code {trial.returncode}"
        return Probe(False, _one_line(f"the GPU trial ended with {how}: {last}"))
    try:
        return Probe(**json.loads(output.strip().splitlines()[-1]))
    except (ValueError, IndexError, TypeError):
        return Probe(False, _one_line(f"the GPU trial gave an answer that cannot be read: {output.strip()[-80:]!r}"))


def _end(trial: subprocess.Popen[str]) -> None:
    """Stop the trial if it still runs, without waiting forever for a process that the driver blocks."""
    if trial.poll() is None:
        trial.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            trial.wait(timeout=5)
    for pipe in (trial.stdout, trial.stderr):
        if pipe is not None:
            pipe.close()


def _one_line(text: str) -> str:
    """A text on one line, cut to LONGEST_REASON characters."""
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 3] + "..."


def try_device() -> Probe:
    """The trial itself. With a broken driver it may hang or crash, so `probe` runs it in another process."""
    try:
        import cupy
    except Exception as error:
        return Probe(False, _one_line(f"cupy is installed but does not import: {type(error).__name__}: {error}"))
    try:
        if cupy.cuda.runtime.getDeviceCount() == 0:
            return Probe(False, f"cupy {cupy.__version__} finds no CUDA device")
        numbers = cupy.arange(1, 1001, dtype="float64")
        indices, indptr = cupy.arange(1000, dtype="int32"), cupy.arange(1001, dtype="int32")
        sparse = importlib.import_module("cupyx.scipy.sparse")
        diagonal = sparse.csr_matrix((numbers, indices, indptr), shape=(1000, 1000))
        if float(numbers.sum()) != 500_500.0 or float((diagonal @ numbers).sum()) != 333_833_500.0:
            return Probe(False, f"cupy {cupy.__version__} computes wrong sums on this device")
        properties = cupy.cuda.runtime.getDeviceProperties(0)
        name = properties["name"].decode(errors="replace")
        device = f"{name}, {properties['totalGlobalMem'] / 2**30:.1f} GiB"
        return Probe(True, f"cupy {cupy.__version__} ran its trial kernels on {device}", device)
    except Exception as error:
        return Probe(False, _one_line(f"cupy {cupy.__version__} is installed, but the device refuses: {error}"))


if __name__ == "__main__":
    print(json.dumps(vars(try_device())))
