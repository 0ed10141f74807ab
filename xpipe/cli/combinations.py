"""The pipelines of a file with a `matrix`. Runs none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xpipe.engine.sweep import Combination


def combinations(path: str, overrides: tuple[str, ...]) -> list[Combination]:
    """Every combination of the values in the `matrix` of a pipeline file. overrides: settings for all of them."""
    from xpipe import config
    from xpipe.engine import sweep

    return sweep.expand(lambda settings: config.load(path, [*overrides, *settings]))
