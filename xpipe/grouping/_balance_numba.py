"""Kernels that assign rows to children of fixed sizes by their scores.

Holds no vectors: scores come in, however they were computed.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from xpipe.ground._selection_numba import select_number
from xpipe.ground.accelerate import jit

SWEEPS = 2  # over all pairs of children; two children need one


@jit
def split_pair(scores, one, two, starts, members):
    """Divide the members of two children anew: those that gain most from the first child go there, ties in order.

    members[starts[c] : starts[c + 1]] are the positions in child c, ascending before and after. Returns whether any
    member changed its child.
    """
    at_one, end_one = starts[one], starts[one + 1]
    at_two, end_two = starts[two], starts[two + 1]
    n_one, n_both = end_one - at_one, end_one - at_one + end_two - at_two
    if n_one in (0, n_both):
        return False
    both = np.empty(n_both, np.int64)
    gains = np.empty(n_both)
    for place in range(n_both):
        if at_two == end_two or (at_one < end_one and members[at_one] < members[at_two]):
            position = members[at_one]
            at_one += 1
        else:
            position = members[at_two]
            at_two += 1
        both[place] = position
        gains[place] = scores[position, one] - scores[position, two]
    limit = select_number(gains.copy(), n_both - n_one)
    equal = n_one  # how many members at the limit go to the first child
    for gain in gains:
        if gain > limit:
            equal -= 1
    at_one, at_two = starts[one], starts[two]
    changed = False
    for place in range(n_both):
        in_one = gains[place] > limit
        if gains[place] == limit and equal > 0:
            in_one = True
            equal -= 1
        if in_one:
            changed |= members[at_one] != both[place]
            members[at_one] = both[place]
            at_one += 1
        else:
            members[at_two] = both[place]
            at_two += 1
    return changed


@jit
def assign_balanced(scores, starts, assigned):
    """Improve an assignment without changing sizes: divide the members of each pair of children anew.

    The sum of the scores never falls. With two children one sweep gives the best assignment there is.
    """
    arity = len(starts) - 1
    members = np.empty(len(assigned), np.int64)
    free = starts[:-1].copy()
    for position in range(len(assigned)):
        members[free[assigned[position]]] = position
        free[assigned[position]] += 1
    for _ in range(SWEEPS):
        changed = False
        for one in range(arity):
            for two in range(one + 1, arity):
                changed |= split_pair(scores, one, two, starts, members)
        if not changed or arity == 2:
            break
    for child in range(arity):
        for place in range(starts[child], starts[child + 1]):
            assigned[members[place]] = child
