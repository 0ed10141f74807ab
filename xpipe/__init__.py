"""xpipe: from labels on groups of samples to clean extreme multi-label datasets.

Rooms (`xpipe.formats`, `xpipe.grouping`, ...) are imported on first use, so that `import xpipe` is instant.
"""

from __future__ import annotations

import importlib
from typing import Any

from xpipe.ground.moved import MOVED, find_old_names

__version__ = "0.1.0"

ROOMS = (
    "argmaxability",
    "cli",
    "config",
    "eagle",
    "engine",
    "errors",
    "formats",
    "ground",
    "grouping",
    "heads",
    "metrics",
    "stages",
    "synth",
    "trees",
)
find_old_names()


def __getattr__(name: str) -> Any:
    if name in ROOMS or name in MOVED:
        return importlib.import_module(f"xpipe.{name}")
    raise AttributeError(f"module 'xpipe' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *ROOMS])
