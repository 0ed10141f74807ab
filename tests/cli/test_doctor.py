"""The doctor's facts: complete, cheap, and right about limits and missing things."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from importlib import metadata

import pytest

from xpipe.cli import examination as doctor
from xpipe.cli.examination import Check, examine
from xpipe.cli.machine_limits import cpu_quota, memory_limit
from xpipe.ground import backend
from xpipe.ground.backend import Probe


@pytest.fixture
def no_probe(monkeypatch):
    monkeypatch.setattr(backend, "probe", lambda: Probe(False, "no GPU in tests"))


def by_name(checks) -> dict[str, Check]:
    return {check.name: check for check in checks}


@pytest.mark.usefixtures("no_probe")
def test_examine_covers_everything(tmp_path):
    checks = by_name(examine(tmp_path))
    wanted = {"python", "system", "xpipe", "numpy", "numba", "dask", "pydantic", "extra heads", "extra gpu", "extra s3"}
    wanted |= {"cores", "threads", "memory", "disk here", "spill folder", "numba cache", "open files", "gpu"}
    assert wanted <= set(checks)
    assert checks["numpy"] == Check("numpy", True, metadata.version("numpy"))
    assert checks["gpu"].found == "no GPU in tests"
    assert checks["gpu"].ok is None  # the CPU does as well
    for check in checks.values():
        assert check.found
        assert bool(check.advice) == (check.ok is not True)  # advice where, and only where, it is needed


def test_examine_imports_nothing_heavy():
    code = (
        "import sys; from xpipe.cli.examination import examine; examine(); "
        "print([name for name in ('numpy', 'numba', 'dask', 'cupy', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_missing_and_old_packages(monkeypatch):
    wanted = ["numpy>=2.0", "scipy>=1.13", "lost>=1", "click>=8.1"]
    wanted += ['torch==2.13.0; extra == "heads"', 'x; extra == "dev"']
    installed = {"xpipe": "0.1.0", "numpy": "2.10.1", "scipy": "1.9.3", "click": "8.1"}

    def version(name):
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(doctor.metadata, "requires", lambda name: wanted)
    monkeypatch.setattr(doctor.metadata, "version", version)
    checks = by_name(doctor._packages())
    assert [checks[name].ok for name in ("numpy", "click")] == [True, True]
    assert checks["scipy"] == Check("scipy", False, "1.9.3", "pip install 'scipy>=1.13'")
    assert checks["lost"] == Check("lost", False, "missing", "pip install 'lost>=1'")
    assert checks["extra heads"] == Check("extra heads", None, "no torch", "pip install 'xpipe[heads]'")
    assert "x" not in checks


def test_xpipe_itself_not_installed(monkeypatch):
    def requires(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "requires", requires)
    (check,) = doctor._packages()
    assert (check.ok, check.advice) == (None, "pip install -e .")


def test_cgroup_version_2_takes_the_smallest_on_the_way_up(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "own").write_text("0::/a/b\n")
    (tmp_path / "a" / "b" / "memory.max").write_text("max\n")
    (tmp_path / "a" / "memory.max").write_text("2000\n")
    (tmp_path / "memory.max").write_text("3000\n")
    (tmp_path / "a" / "b" / "cpu.max").write_text("150000 100000\n")
    (tmp_path / "a" / "cpu.max").write_text("max 100000\n")
    assert memory_limit(tmp_path, tmp_path / "own") == 2000
    assert cpu_quota(tmp_path, tmp_path / "own") == 1.5


def test_cgroup_version_1(tmp_path):
    (tmp_path / "own").write_text("4:memory:/job\n3:cpu,cpuacct:/job\n")
    for controller, files in {
        "memory": {"memory.limit_in_bytes": "5000"},
        "cpu": {"cpu.cfs_quota_us": "200000", "cpu.cfs_period_us": "100000"},
    }.items():
        (tmp_path / controller / "job").mkdir(parents=True)
        for name, text in files.items():
            (tmp_path / controller / "job" / name).write_text(text)
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("9223372036854771712")
    assert memory_limit(tmp_path, tmp_path / "own") == 5000
    assert cpu_quota(tmp_path, tmp_path / "own") == 2.0


def test_no_cgroup(tmp_path):
    assert memory_limit(tmp_path, tmp_path / "own") is None
    assert cpu_quota(tmp_path, tmp_path / "own") is None


def test_little_memory(monkeypatch):
    monkeypatch.setattr(doctor, "machine_memory", lambda: (64 * doctor.GIB, 32 * doctor.GIB))
    monkeypatch.setattr(doctor, "memory_limit", lambda: doctor.GIB)
    check = by_name(doctor._cores_and_memory())["memory"]
    assert check.ok is False
    assert check.found == "64.00 GiB, 32.00 GiB available, limited to 1.00 GiB by the container"
    monkeypatch.setattr(doctor, "machine_memory", lambda: (None, None))
    assert by_name(doctor._cores_and_memory())["memory"].ok is None


def test_threads_by_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert "OMP_NUM_THREADS=3" in by_name(doctor._cores_and_memory())["threads"].found


def test_disk_that_is_full_or_missing(tmp_path, monkeypatch):
    assert doctor._room("disk here", tmp_path / "none", 1, "advice").ok is False
    assert doctor._room("disk here", tmp_path, 2**80, "advice") == Check(
        "disk here", False, doctor._room("disk here", tmp_path, 0, "").found, "advice"
    )
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "cannot be written" in doctor._room("disk here", tmp_path, 0, "advice").found


def test_spill_into_memory_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "_file_system", lambda folder: "tmpfs")
    assert by_name(doctor._disks(tmp_path))["spill in memory"].ok is None


def test_numba_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "made" / "later"))
    assert by_name(doctor._numba())["numba cache"] == Check("numba cache", True, str(tmp_path / "made" / "later"))
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    check = by_name(doctor._numba())["numba cache"]
    assert check.ok is False
    assert "NUMBA_CACHE_DIR" in check.advice


@pytest.mark.parametrize(("soft", "ok"), [(256, False), (4096, True), (resource.RLIM_INFINITY, True)])
def test_open_files(monkeypatch, soft, ok):
    monkeypatch.setattr(resource, "getrlimit", lambda what: (soft, resource.RLIM_INFINITY))
    (check,) = doctor._open_files()
    assert check.ok is ok
