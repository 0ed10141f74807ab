"""What this machine offers xpipe: one Check a fact, with advice where something stands in the way.

Prints nothing (`cli` does) and imports no heavy package: versions come from metadata, the GPU from `backend.probe`.
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

from xpipe.ground.machine import usable_cores
from xpipe.ground.quantities import format_bytes

GIB = 2**30
LEAST_PYTHON = (3, 11)
LEAST_MEMORY, LEAST_DISK, LEAST_SPILL, LEAST_FILES = 4 * GIB, 10 * GIB, 4 * GIB, 1024
EXTRAS_OF_USERS = ("heads", "gpu", "report", "s3")  # dev and bench concern those who work on xpipe itself
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*([^;]*)(?:;.*extra\s*==\s*['\"]([a-z0-9]+)['\"].*)?$")


@dataclass(frozen=True)
class Check:
    """One fact: `ok` True, False (stands in the way), or None (optional, or cannot be known); advice where not True."""

    name: str
    ok: bool | None
    found: str
    advice: str = ""


def examine(directory: str | os.PathLike[str] = ".") -> list[Check]:
    """Look at Python, packages, cores, memory, disks, caches, limits and the GPU. directory: where runs are kept."""
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
    return Check(name, ok, found, "" if ok else advice)


def _python() -> Iterator[Check]:
    wanted = ".".join(map(str, LEAST_PYTHON))
    found = f"{platform.python_version()} ({sys.executable})"
    yield _check("python", sys.version_info >= LEAST_PYTHON, found, f"use Python {wanted} or newer")
    yield Check("system", True, f"{platform.system()} {platform.release()} {platform.machine()}")


def _packages() -> Iterator[Check]:
    """What xpipe's own metadata asks for, against what is installed."""
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
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _at_least(installed: str, wanted: str) -> bool:
    """Whether a version satisfies `>=x.y`; other forms of a wish are left to pip."""
    limit = re.search(r">=\s*([0-9.]+)", wanted)
    if limit is None:
        return True
    have, need = ([int(part) for part in re.findall(r"\d+", text)[:3]] for text in (installed, limit[1]))
    return have >= need


def _cores_and_memory() -> Iterator[Check]:
    cores = usable_cores()
    quota = cpu_quota()
    found = f"{cores} usable of {os.cpu_count()}" + (f", limited to {quota:g} by the container" if quota else "")
    yield Check("cores", True, found)
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    threads = ", ".join(f"{name}={os.environ[name]}" for name in names if name in os.environ)
    yield Check("threads", True, threads or "no limit set; local workers compute with one thread each")
    total, available = _memory()
    limit = memory_limit()
    if total is None:
        yield Check("memory", None, "cannot be known here", "set `cluster.memory_limit` by hand")
        return
    usable = min(total, limit or total)
    found = f"{format_bytes(total)}, {format_bytes(available or 0)} available"
    found += f", limited to {format_bytes(limit)} by the container" if limit and limit < total else ""
    advice = "choose `cluster.workers` and `cluster.memory_limit` so that their product fits"
    yield _check("memory", usable >= LEAST_MEMORY, found, advice)


def _memory() -> tuple[int | None, int | None]:
    """Total and available bytes of the machine."""
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        total, available = (int(lines[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))
        return total, available
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), None
    except (OSError, ValueError, AttributeError):
        return None, None


def memory_limit(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int | None:
    """The smallest memory limit of this process's control groups (version 1 or 2) in bytes, or None."""
    found = []
    for _, value in _cgroup_values(root, own, "memory", ("memory.max", "memory.limit_in_bytes")):
        if value.isdigit() and int(value) < 2**60:  # version 1 writes a huge number for no limit
            found.append(int(value))
    return min(found, default=None)


def cpu_quota(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float | None:
    """Cores this process may use together by its control groups, or None without a limit."""
    found = []
    for folder, value in _cgroup_values(root, own, "cpu", ("cpu.max", "cpu.cfs_quota_us")):
        quota, _, period = value.partition(" ")
        period = period or _text(folder / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit():
            found.append(int(quota) / int(period))
    return min(found, default=None)


def _cgroup_values(root: Path, own: Path, controller: str, files: tuple[str, str]) -> Iterator[tuple[Path, str]]:
    """The values of a control file from this process's group up to the root, for version 2, then version 1."""
    paths = {"": "/", controller: "/"}
    for line in _text(own).splitlines():
        _, names, path = line.split(":", 2)
        paths.update({name: path for name in names.split(",") if name in paths})
    for file, folder, path in ((files[0], root, paths[""]), (files[1], root / controller, paths[controller])):
        group = Path(path.lstrip("/"))
        for step in (group, *group.parents):
            if value := _text(folder / step / file):
                yield folder / step, value


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _disks(directory: Path) -> Iterator[Check]:
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
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check(name, False, f"{folder}: {error.strerror}", advice)
    if not os.access(folder, os.W_OK):
        return Check(name, False, f"{folder.resolve()} cannot be written", advice)
    return _check(name, free >= least, f"{format_bytes(free)} free in {folder.resolve()}", advice)


def _file_system(folder: Path) -> str:
    """The type of file system a folder is on, or nothing where that cannot be known."""
    mounts = [line.split()[1:3] for line in _text(Path("/proc/mounts")).splitlines()]
    place = folder.resolve()
    over = [(len(point), kind) for point, kind in mounts if place.is_relative_to(point)]
    return max(over)[1] if over else ""


def _numba() -> Iterator[Check]:
    """Where compiled kernels are kept; without such a place every process compiles anew."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    beside = Path(__file__).parent / "__pycache__"
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "numba"
    for folder in [Path(chosen)] if chosen else [beside, home]:
        if _writable(folder):
            yield Check("numba cache", True, str(folder))
            break
    else:
        advice = "set NUMBA_CACHE_DIR to a folder you may write"
        yield Check("numba cache", False, f"{chosen or beside} cannot be written", advice)
    spec = util.find_spec("numba")
    if spec is not None and spec.origin is not None:
        layers = {path.name.split(".")[0] for path in (Path(spec.origin).parent / "np" / "ufunc").glob("*pool.*")}
        yield Check("numba threads", True, f"layers {', '.join(sorted(layers))}; xpipe uses plain threads instead")


def _writable(folder: Path) -> bool:
    """Whether a file can be made in a folder, or the folder itself made."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _open_files() -> Iterator[Check]:
    try:
        import resource
    except ImportError:  # no such limit on this system
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    words = ["unlimited" if limit == resource.RLIM_INFINITY else str(limit) for limit in (soft, hard)]
    ok = soft == resource.RLIM_INFINITY or soft >= LEAST_FILES
    yield _check("open files", ok, f"{words[0]} (at most {words[1]})", f"ulimit -n {LEAST_FILES * 4}")


def _gpu() -> Iterator[Check]:
    from xpipe.ground.backend import probe

    found = probe()
    advice = "`backend: auto` uses the CPU; for a GPU: nvidia-smi must work, and pip install 'xpipe[gpu]'"
    yield _check("gpu", True if found.usable else None, found.reason, advice)
