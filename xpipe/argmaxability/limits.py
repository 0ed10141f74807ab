"""What a verdict decides: the smallest radius that counts, the box of inputs, and when a search may stop.

Holds no search and no proof.
"""

from __future__ import annotations

from typing import NamedTuple, get_args

import numpy as np

from xpipe.argmaxability.options import BOX, INPUTS, Inputs, Radius
from xpipe.argmaxability.output_layer import LARGEST, SMALLEST
from xpipe.errors import ConfigError

EXACT = 2e-7  # relative difference of the bounds at which a search has found the exact radius
SURE = 0.3  # share of eps that multipliers must reach, so that rounding does not spoil the proof
MARGIN = 1e-6  # relative, for the same reason


class Limits(NamedTuple):
    """What is to be decided about a radius: above or below eps, and at least 1 or below; or its exact value.

    Radii and bounds that its methods take and give are in box units: the box is then [-1, 1]^d.
    """

    eps: float
    box: float
    exact: bool
    nonnegative: bool = False

    @property
    def floor(self) -> float:
        """The lowest value of an input (box units)."""
        return 0.0 if self.nonnegative else -1.0

    @property
    def none(self) -> float:
        """Radii below this count as zero (box units)."""
        return SURE * self.eps / self.box

    @property
    def enough(self) -> float:
        """A point of this radius needs no better one (box units).

        That is a radius of 1. In exact mode any radius above eps will do, because another search finds the exact one.
        """
        return (2 * self.eps if self.exact else 1 + MARGIN) / self.box

    def settled(self, lower: float, upper: float) -> bool:
        """Whether these bounds of a radius decide all that is asked (box units)."""
        if self.exact:
            return lower >= upper * (1 - EXACT)
        one = 1 / self.box
        return lower >= one * (1 + MARGIN) or (lower > 2 * self.eps / self.box and upper < one * (1 - MARGIN))


def make_limits(eps: float, box: float, radius: str, inputs: str = INPUTS) -> Limits:
    """Checked limits. Raises ConfigError for values out of range."""
    check_limits(eps, box)
    if inputs not in get_args(Inputs):
        raise ConfigError(f"`inputs` must be 'any' or 'nonnegative', got {inputs!r}")
    if radius not in get_args(Radius):
        raise ConfigError(f"`radius` must be 'bounds' or 'exact', got {radius!r}")
    return Limits(eps, box, radius == "exact", inputs == "nonnegative")


def check_limits(eps: float, box: float) -> None:
    """Raise ConfigError unless both are finite numbers above 0 and within their ranges."""
    for name, value in (("eps", eps), ("box", box)):
        if not _is_positive(value):
            raise ConfigError(f"`{name}` must be a finite number above 0, got {value}")
    if eps > 1:
        raise ConfigError(f"`eps` must be at most 1, got {eps}", why="whether a radius reaches 1 is always decided")
    if not SMALLEST <= box <= LARGEST:
        raise ConfigError(f"`box` must be within {SMALLEST:g}..{LARGEST:g}, got {box}", fix=f"leave it out: {BOX:g}")


def are_limits(eps: object, box: object) -> bool:
    """Whether `check_limits` accepts both."""
    try:
        check_limits(eps, box)  # type: ignore[arg-type]
    except ConfigError:
        return False
    return True


def _is_positive(value: object) -> bool:
    """Whether the value is a finite number above 0; texts, arrays and NaN are not."""
    return isinstance(value, int | float | np.integer | np.floating) and bool(0 < value < np.inf)
