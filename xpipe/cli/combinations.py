"""The pipelines of a file with a `matrix`."""

from __future__ import annotations

from typing import Any


def combinations(path: str, overrides: tuple[str, ...]) -> list[Any]:
    """Every pipeline of a file with a `matrix`."""
    from xpipe import config
    from xpipe.engine import sweep

    return sweep.expand(lambda settings: config.load(path, [*overrides, *settings]))
