"""The stand-in for cupy: it has cupy's names, keeps host and device apart, and shows what atomics do."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from tests.array_module import NAMES, DeviceArray
from tests.array_module import array_module as xp


def test_the_stand_in_has_no_name_that_cupy_has_not():
    cupy = pytest.importorskip("cupy")
    assert [name for name in NAMES if not hasattr(cupy, name)] == []
    public = [name for name in vars(DeviceArray) if not name.startswith("_")]
    assert [name for name in public if not hasattr(cupy.ndarray, name)] == []


def test_what_cupy_lacks_is_refused():
    with pytest.raises(AttributeError):
        xp.lib  # noqa: B018
    with pytest.raises(ValueError, match="dtype"):
        xp.asarray(np.array(["text"]))
    with pytest.raises(NotImplementedError):
        xp.sqrt.at(xp.zeros(2), xp.arange(2), 1.0)


@pytest.mark.parametrize(
    "mix",
    [
        lambda device, host: device + host,
        lambda device, host: host + device,
        lambda device, host: device[host],
        lambda device, host: device @ host,
        lambda device, host: np.asarray(device),
        np.maximum,
        lambda device, host: xp.maximum(host, host),
        lambda device, host: xp.where(device > 0, host, device),
        lambda device, host: list(device),
        lambda device, host: device.__setitem__(slice(None), host),
    ],
)
def test_host_and_device_do_not_mix(mix):
    with pytest.raises(TypeError):
        mix(xp.arange(3), np.arange(3))


def test_atomics_round_and_come_in_any_order():
    values = 1 + np.random.default_rng(0).random(1000) * 1e-9
    high = xp.full(1, -xp.inf)
    xp.maximum.at(high, xp.zeros(1000, dtype=xp.int64), xp.asarray(values))
    assert float(high) != values.max()
    weights = xp.asarray(np.random.default_rng(0).standard_normal(1000) * 1e8)
    sums = {float(xp.bincount(xp.zeros(1000, dtype=xp.int64), weights=weights)) for _ in range(20)}
    assert len(sums) > 1
    with pytest.raises(ValueError, match="twice"):
        xp.zeros(3)[xp.asarray([1, 1])] = xp.asarray([1.0, 2.0])


def test_the_gpu_extra_asks_for_the_cupy_that_was_read():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    assert project["project"]["optional-dependencies"]["gpu"] == ["cupy-cuda12x>=14.1"]
