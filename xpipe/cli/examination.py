"""What this machine offers xpipe: one check per fact, with advice where something prevents xpipe from working.

Prints nothing (`run_tables` does) and imports no heavy package: versions come from metadata, the GPU from
`backend.probe`.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from xpipe.cli.machine_limits import cpu_quota, machine_memory, memory_limit, read_text
from xpipe.ground.machine import usable_cores
from xpipe.ground.quantities import format_bytes

GIB = 2**30
LEAST_PYTHON = (3, 11)
LEAST_MEMORY, LEAST_DISK, LEAST_SPILL, LEAST_FILES = 4 * GIB, 10 * GIB, 4 * GIB, 1024
EXTRAS_OF_USERS = ("heads", "gpu", "s3", "slurm")  # dev, docs and bench concern those who work on xpipe itself
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*([^;]*)(?:;.*extra\s*==\s*['\"]([a-z0-9]+)['\"].*)?$")


@dataclass(frozen=True)
class Check:
    """One fact about the machine, with advice unless it is ok.

    ok: False if it prevents xpipe from working, None if it is optional or cannot be known.
    """

    name: str
    ok: bool | None
    found: str
    advice: str = ""


def examine(directory: str | os.PathLike[str] = ".") -> list[Check]:
    """Check Python, packages, cores, memory, disks, caches, limits and the GPU. directory: where runs are kept."""
    return [
        *_python(),
        *_packages(),
        *_cores_and_memory(),
        *_disks(Path(directory)),
        *_numba(),
        *_open_files(),
        *_gpu(),
    ]


def _check(name: str, ok: bool | None, found: str, advice: str) -> Check:
    """A check that gives the advice only if it is not ok."""
    return Check(name, ok, found, "" if ok else advice)


def _python() -> Iterator[Check]:
    """The version of Python, and the system."""
    wanted = ".".join(map(str, LEAST_PYTHON))
    found = f"{platform.python_version()} ({sys.executable})"
    yield _check("python", sys.version_info >= LEAST_PYTHON, found, f"use Python {wanted} or newer")
    yield Check("system", True, f"{platform.system()} {platform.release()} {platform.machine()}")


def _packages() -> Iterator[Check]:
    """The packages that xpipe's metadata asks for, and those that are installed."""
    try:
        wanted = metadata.requires("xpipe") or []
    except metadata.PackageNotFoundError:
        yield Check("xpipe", None, "not installed, run from its folder", "pip install -e .")
        return
    yield Check("xpipe", True, metadata.version("xpipe"))
    extras: dict[str, list[str]] = {name: [] for name in EXTRAS_OF_USERS}
    for requirement in wanted:
        match = _REQUIREMENT.match(requirement)
        if match is None:
            continue
        name, version, extra = match[1], match[2].strip(), match[3]
        if extra is None:
            installed = _version(name)
            ok = installed is not None and _at_least(installed, version)
            yield _check(name, ok, installed or "missing", f"pip install '{name}{version}'")
        elif extra in extras:
            extras[extra].append(name)
    for extra, names in extras.items():
        have = {name: _version(name) for name in names}
        found = ", ".join(f"{name} {version}" if version else f"no {name}" for name, version in have.items())
        yield _check(f"extra {extra}", True if all(have.values()) else None, found, f"pip install 'xpipe[{extra}]'")


def _version(package: str) -> str | None:
    """The installed version of a package; None where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _at_least(installed: str, wanted: str) -> bool:
    """Whether a version satisfies `>=x.y`. Other requirements count as satisfied: pip checks them."""
    limit = re.search(r">=\s*([0-9.]+)", wanted)
    if limit is None:
        return True
    have, need = ([int(part) for part in re.findall(r"\d+", text)[:3]] for text in (installed, limit[1]))
    return have >= need


def _cores_and_memory() -> Iterator[Check]:
    """Cores, threads of libraries, and memory, with the limits of the container."""
    cores = usable_cores()
    quota = cpu_quota()
    found = f"{cores} usable of {os.cpu_count()}" + (f", limited to {quota:g} by the container" if quota else "")
    yield Check("cores", True, found)
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    threads = ", ".join(f"{name}={os.environ[name]}" for name in names if name in os.environ)
    yield Check("threads", True, threads or "no limit set; local workers compute with one thread each")
    total, available = machine_memory()
    limit = memory_limit()
    if total is None:
        yield Check("memory", None, "cannot be known here", "set `cluster.memory_limit` by hand")
        return
    usable = min(total, limit or total)
    found = f"{format_bytes(total)}, {format_bytes(available or 0)} available"
    found += f", limited to {format_bytes(limit)} by the container" if limit and limit < total else ""
    advice = "choose `cluster.workers` and `cluster.memory_limit` so that their product fits"
    yield _check("memory", usable >= LEAST_MEMORY, found, advice)


def _disks(directory: Path) -> Iterator[Check]:
    """Free space where runs are kept, where workers spill, and in shared memory."""
    yield _room("disk here", directory, LEAST_DISK, "free some, or set `out` and `store` to a larger disk")
    spill = Path(tempfile.gettempdir())
    advice = "set TMPDIR (or dask's temporary-directory) to a folder on a larger disk"
    yield _room("spill folder", spill, LEAST_SPILL, advice)
    if _file_system(spill) == "tmpfs":
        yield Check("spill in memory", None, f"{spill} is a tmpfs: what workers spill still fills memory", advice)
    shared = Path("/dev/shm")
    if shared.is_dir():
        yield Check("/dev/shm", True, f"{format_bytes(shutil.disk_usage(shared).free)} free")


def _room(name: str, folder: Path, least: int, advice: str) -> Check:
    """Whether a folder can be written and has at least `least` bytes free."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check(name, False, f"{folder}: {error.strerror}", advice)
    if not os.access(folder, os.W_OK):
        return Check(name, False, f"{folder.resolve()} cannot be written", advice)
    return _check(name, free >= least, f"{format_bytes(free)} free in {folder.resolve()}", advice)


def _file_system(folder: Path) -> str:
    """The type of the file system that a folder is on; "" where that cannot be known."""
    mounts = [line.split()[1:3] for line in read_text(Path("/proc/mounts")).splitlines()]
    place = folder.resolve()
    over = [(len(point), kind) for point, kind in mounts if place.is_relative_to(point)]
    return max(over)[1] if over else ""


def _numba() -> Iterator[Check]:
    """The folder of compiled kernels. Without it, every process compiles them again."""
    from xpipe.ground.kernel_folder import kernel_home

    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or kernel_home())
    kept = f"{folder}" if _writable(folder) else f"{folder} cannot be written"
    yield _check("numba cache", _writable(folder), kept, "set NUMBA_CACHE_DIR to a folder you may write")
    spec = util.find_spec("numba")
    if spec is not None and spec.origin is not None:
        layers = {path.name.split(".")[0] for path in (Path(spec.origin).parent / "np" / "ufunc").glob("*pool.*")}
        yield Check("numba threads", True, f"layers {', '.join(sorted(layers))}; xpipe uses plain threads instead")


def _writable(folder: Path) -> bool:
    """Whether a file can be created in a folder, or the folder itself can be created."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _open_files() -> Iterator[Check]:
    """The limit on open files."""
    try:
        import resource
    except ImportError:  # no such limit on this system
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    words = ["unlimited" if limit == resource.RLIM_INFINITY else str(limit) for limit in (soft, hard)]
    ok = soft == resource.RLIM_INFINITY or soft >= LEAST_FILES
    yield _check("open files", ok, f"{words[0]} (at most {words[1]})", f"ulimit -n {LEAST_FILES * 4}")


def _gpu() -> Iterator[Check]:
    """Whether a GPU can be used."""
    from xpipe.ground.backend import probe

    found = probe()
    advice = "`backend: auto` uses the CPU; for a GPU: nvidia-smi must work, and pip install 'xpipe[gpu]'"
    yield _check("gpu", True if found.usable else None, found.reason, advice)
