"""Waiting for a condition, with one limit for all tests: far beyond what a starved machine needs."""

from __future__ import annotations

import time
from collections.abc import Callable

LIMIT = 900.0  # seconds; a test that fails by it waits for something that never comes


def wait_for(condition: Callable[[], object], what: str = "it", seconds: float = LIMIT) -> None:
    """Return as soon as the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what}"
        time.sleep(0.002)
