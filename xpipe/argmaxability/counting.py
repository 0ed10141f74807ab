"""How many label sets a head of n labels and d inputs can predict at all. Nothing about any one of them."""

from __future__ import annotations

import math

from xpipe.errors import ConfigError


def count_argmaxable(n: int, d: int) -> int:
    """The number of argmaxable sets of n labels, exactly: 2 * sum_{i<d} C(n - 1, i) (Cover 1965).

    For weights in general position (every d rows independent) and no bias. Raises ConfigError below one label or input.
    """
    if n < 1 or d < 1:
        raise ConfigError(f"a head has at least one label and one input, got n={n}, d={d}")
    total, choices = 0, 1
    for i in range(min(d, n)):
        total += choices
        choices = choices * (n - 1 - i) // (i + 1)
    return 2 * total


def log10_share(n: int, d: int) -> float:
    """log10 of the share of all 2^n label sets that is argmaxable; 0.0 where all are."""
    if d >= n:
        count_argmaxable(n, d)  # refuses what is not a head
        return 0.0
    count = count_argmaxable(n, d)
    missing = 2**n - count
    if missing < count:  # near 1, where the difference of two logarithms would be rounding
        return math.log1p(-_ratio(missing, 2**n)) / math.log(10)
    return math.log10(count) - n * math.log10(2)


def _ratio(a: int, b: int) -> float:
    """a / b for integers of any size, 0.0 where that is too small for a float."""
    shift = max(b.bit_length() - 1000, 0)
    return (a >> shift) / (b >> shift)
