"""Peak memory: seen when it is used, forgotten on reset."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

from xpipe import machine


@pytest.mark.skipif(sys.platform != "linux", reason="the peak can be reset on Linux only")
def test_peak_is_seen_and_reset():
    gc.collect()  # what earlier tests left must not go away in between
    machine.reset_peak()
    before = machine.peak_bytes()
    assert before > 2**20
    held = np.ones(80 * 2**20, dtype=np.uint8)
    with_it = machine.peak_bytes()
    assert with_it > before + 60 * 2**20
    del held
    assert machine.peak_bytes() > with_it - 2**20  # a peak stays, up to the kernel's own rounding
    machine.reset_peak()
    assert machine.peak_bytes() < with_it - 40 * 2**20
