"""How much memory and how many cores this process can use, by the machine and by its container.

Judges nothing: `examination` does that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

NO_LIMIT = 2**60  # version 1 of control groups writes a number above this for "no limit"


def machine_memory() -> tuple[int | None, int | None]:
    """The total and the available bytes of the machine. None: not known."""
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
    """The smallest memory limit of this process's control groups (version 1 or 2) in bytes. None without a limit."""
    found = []
    for _, value in _cgroup_values(root, own, "memory", ("memory.max", "memory.limit_in_bytes")):
        if value.isdigit() and int(value) < NO_LIMIT:
            found.append(int(value))
    return min(found, default=None)


def cpu_quota(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float | None:
    """The cores that the control groups of this process allow it altogether. None without a limit."""
    found = []
    for folder, value in _cgroup_values(root, own, "cpu", ("cpu.max", "cpu.cfs_quota_us")):
        quota, _, period = value.partition(" ")
        period = period or read_text(folder / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit():
            found.append(int(quota) / int(period))
    return min(found, default=None)


def _cgroup_values(root: Path, own: Path, controller: str, files: tuple[str, str]) -> Iterator[tuple[Path, str]]:
    """Each control group from that of this process up to the root, with the value of a control file there.

    files: the names of the control file in version 2 and in version 1.
    """
    paths = {"": "/", controller: "/"}
    for line in read_text(own).splitlines():
        _, names, path = line.split(":", 2)
        paths.update({name: path for name in names.split(",") if name in paths})
    for file, folder, path in ((files[0], root, paths[""]), (files[1], root / controller, paths[controller])):
        group = Path(path.lstrip("/"))
        for step in (group, *group.parents):
            if value := read_text(folder / step / file):
                yield folder / step, value


def read_text(path: Path) -> str:
    """The text of a system file; "" where it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
