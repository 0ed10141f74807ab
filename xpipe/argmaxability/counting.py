"""How many label sets an output layer of n labels and d inputs can predict.

Holds nothing about any particular set.
"""

from __future__ import annotations

import math

from xpipe.errors import ConfigError


def count_argmaxable(n: int, d: int) -> int:
    """Count the argmaxable sets of n labels, exactly: 2 * sum_{i<d} C(n - 1, i) (Cover 1965).

    Parameters
    ----------
    n : int
        The number of labels.
    d : int
        The number of inputs. The weights must be in general position (every d rows are independent), without bias.

    Returns
    -------
    int

    Raises
    ------
    ConfigError
        If n or d is below 1.

    Examples
    --------
    >>> from xpipe.argmaxability import count_argmaxable
    >>> count_argmaxable(4, 2), 2**4
    (8, 16)
    """
    if n < 1 or d < 1:
        raise ConfigError(f"an output layer has at least one label and one input, got n={n}, d={d}")
    total, choices = 0, 1
    for i in range(min(d, n)):
        total += choices
        choices = choices * (n - 1 - i) // (i + 1)
    return 2 * total


def log10_share(n: int, d: int) -> float:
    """Compute log10 of the share of all 2^n label sets that is argmaxable.

    Parameters
    ----------
    n, d : int
        As in `count_argmaxable`.

    Returns
    -------
    float
        0.0 where all sets are argmaxable.

    Raises
    ------
    ConfigError
        If n or d is below 1.

    Examples
    --------
    >>> from xpipe.argmaxability import log10_share
    >>> round(10 ** log10_share(4, 2), 6)
    0.5
    """
    if d >= n:
        count_argmaxable(n, d)  # raises for sizes below 1
        return 0.0
    count = count_argmaxable(n, d)
    missing = 2**n - count
    if missing < count:  # near 1, where the difference of two logarithms would be rounding
        return math.log1p(-_ratio(missing, 2**n)) / math.log(10)
    return math.log10(count) - n * math.log10(2)


def _ratio(a: int, b: int) -> float:
    """a / b for integers of any size; 0.0 where that is too small for a float."""
    shift = max(b.bit_length() - 1000, 0)
    return (a >> shift) / (b >> shift)
