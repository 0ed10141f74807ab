"""Kernel that finds the number at a place of the sorted order. Holds no order of equal numbers: they are the same.

numpy's partition does it too, but takes the compiler ten times as long.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from xpipe.ground.accelerate import jit


@jit
def select_number(numbers, place):
    """The number at `place` of the numbers in ascending order. Changes their order. None of them may be NaN."""
    first, last = 0, len(numbers) - 1
    while first < last:
        pivot = numbers[(first + last) // 2]
        low, high = first, last
        while low <= high:
            while numbers[low] < pivot:
                low += 1
            while pivot < numbers[high]:
                high -= 1
            if low <= high:
                numbers[low], numbers[high] = numbers[high], numbers[low]
                low += 1
                high -= 1
        if place <= high:
            last = high
        elif place >= low:
            first = low
        else:
            break
    return numbers[place]
