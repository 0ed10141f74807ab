"""Peak memory: seen when it is used, forgotten on reset."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A process of its own: in one that other tests have used, memory set free in between hides what is taken.
USE_AND_FORGET = """
import numpy as np
from xpipe import machine

machine.reset_peak()
before = machine.peak_bytes()
held = np.ones(80 * 2**20, dtype=np.uint8)
with_it = machine.peak_bytes()
del held
after = machine.peak_bytes()
machine.reset_peak()
print(before, with_it, after, machine.peak_bytes())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak can be reset on Linux only")
def test_peak_is_seen_and_reset():
    ran = subprocess.run([sys.executable, "-c", USE_AND_FORGET], capture_output=True, text=True, check=True)
    before, with_it, after, forgotten = (int(word) for word in ran.stdout.split())
    assert before > 2**20
    assert with_it > before + 60 * 2**20
    assert after > with_it - 2**20  # a peak stays, up to the kernel's own rounding
    assert forgotten < with_it - 40 * 2**20
