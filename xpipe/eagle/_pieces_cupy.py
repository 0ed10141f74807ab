"""Sums and largest values of consecutive pieces of arrays on a device, without asking the device for any number.

Holds nothing of labels or groups. Like `_segments_cupy`, a piece is reduced as a tree whose order depends on its length
alone, so other pieces beside it change no bit of its sum. There, the places that absorb are listed once and used often,
which waits for the device to count them. Here they change with every call: each element knows how often it absorbs.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import Any

import numpy as np


def passes_of(length: int) -> int:
    """How many passes a piece of this length needs."""
    return max(length - 1, 0).bit_length()


def spread_known(xp: Any, lengths: Any, total: int) -> tuple[Any, Any, Any]:
    """(piece, place within the piece) of each of `total` elements of consecutive pieces, and where pieces begin."""
    if not total:
        none = xp.zeros(0, dtype=xp.int64)
        return none, none, xp.zeros(len(lengths), dtype=xp.int64)
    ends = xp.cumsum(lengths)
    numbers = xp.arange(total)
    piece = xp.searchsorted(ends, numbers, side="right")
    starts = ends - lengths
    return piece, numbers - starts[piece], starts


class Absorbing:
    """How often an element absorbs a neighbour: tables for all pieces up to a length.

    In pass p, the element at each place that 2^(p + 1) divides absorbs the one 2^p places on, if the piece has it.
    """

    def __init__(self, xp: Any, longest: int):
        numbers = np.arange(longest + 1)
        twos, passes = np.full(longest + 1, 127, np.int8), np.zeros(longest + 1, np.int8)
        for bit in range(int(longest).bit_length()):
            twos[(numbers >> bit) & 1 == 1] = np.minimum(twos[(numbers >> bit) & 1 == 1], bit)
            passes[numbers > 1 << bit] = bit + 1
        self.xp, self.twos, self.passes = xp, xp.asarray(twos), xp.asarray(passes)

    def times(self, place: Any, length: Any) -> Any:
        """For each element by its place and the length of its piece, int8."""
        return self.xp.minimum(self.twos[place], self.passes[length - place])


def reduce_pieces(xp: Any, combine: Any, values: Any, times: Any, passes: int) -> Any:
    """Reduce each piece into its first element; `values` (one or two dimensions) is changed and returned.

    times: how often each element absorbs. passes: of the longest piece.
    """
    for number in range(passes):
        shift = 1 << number
        if shift >= len(values):
            break
        absorbs = times[:-shift] > number
        if values.ndim == 2:
            absorbs = absorbs[:, None]
        values[:-shift] = xp.where(absorbs, combine(values[:-shift], values[shift:]), values[:-shift])
    return values


def sum_columns(xp: Any, values: Any) -> Any:
    """The sum of each row of a matrix, which is changed; always in the same order."""
    width = values.shape[1]
    if not width:
        return xp.zeros(len(values), dtype=values.dtype)
    while width > 1:
        half = width // 2
        odd = values[:, width - 1 :] if width % 2 else None
        values = values[:, :half] + values[:, half : 2 * half]
        if odd is not None:
            values[:, :1] = values[:, :1] + odd
        width = half
    return values[:, 0]
