"""xpipe: from labels on groups of samples to clean extreme multi-label datasets.

Rooms (`xpipe.formats`, `xpipe.grouping`, ...) are imported on first use, so that `import xpipe` is instant.
"""

from __future__ import annotations

import importlib
from typing import Any

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


def __getattr__(name: str) -> Any:
    if name in ROOMS:
        return importlib.import_module(f"xpipe.{name}")
    raise AttributeError(f"module 'xpipe' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *ROOMS])
