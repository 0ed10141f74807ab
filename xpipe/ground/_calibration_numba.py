"""Kernels of calibration: blocks of isotonic regression, and probabilities that keep the order of their scores.

Hold no map and no choice of points.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from xpipe.ground.accelerate import jit

NOTHING = np.float32(0.0)
SHORT = 32  # entries of a row that are sorted by insertion, without memory of its own


@jit
def pool_adjacent(scores, truths, weights, slope, sums):
    """Pool adjacent violators: blocks of points whose means rise by at least `slope` per unit of the score.

    scores: ascending. sums: one row per point; block b gets (weight, weight * score, weight * truth) in row b. Returns
    the number of blocks.
    """
    count = 0
    for place in range(len(scores)):
        sums[count, 0] = weights[place]
        sums[count, 1] = weights[place] * scores[place]
        sums[count, 2] = weights[place] * truths[place]
        count += 1
        while count > 1:
            low, high = sums[count - 2], sums[count - 1]
            if (low[2] - slope * low[1]) / low[0] < (high[2] - slope * high[1]) / high[0]:
                break
            for column in range(3):
                low[column] += high[column]
            count -= 1
    return count


@jit
def order_short(scores, order):
    """The places of at most SHORT scores, the highest first; equal scores keep their order."""
    for place in range(len(scores)):
        rank = place
        while rank > 0 and scores[order[rank - 1]] < scores[place]:
            order[rank] = order[rank - 1]
            rank -= 1
        order[rank] = place


@jit
def separate_rows(indptr, scores, ties, probabilities):
    """Lower probabilities of a row as little as possible, so that a lower score has a lower probability.

    Probabilities are those of a map that rises; rounded to float32, some of different scores may be equal. ties: what
    ranks equal scores; in a row, of equal scores the larger number comes first.
    """
    short = np.empty(SHORT, dtype=np.int64)
    for row in range(len(indptr) - 1):
        first, last = indptr[row], indptr[row + 1]
        order = short
        if last - first > SHORT:
            order = np.argsort(-scores[first:last], kind="mergesort")
        else:
            order_short(scores[first:last], short)
        for rank in range(1, last - first):
            above, here = first + order[rank - 1], first + order[rank]
            if scores[here] == scores[above] and ties[here] == ties[above]:
                probabilities[here] = probabilities[above]
            elif probabilities[here] >= probabilities[above]:
                probabilities[here] = np.nextafter(probabilities[above], NOTHING)
