"""Kernels for label order: a path through labels that co-occur, and moves that improve it.

Holds no choice of weights. Two labels side by side save two sign changes of every set that has both. So the value of a
path is the sum of the weights of its neighbouring labels.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.ground.accelerate import jit

LONGEST = 3  # labels moved together
GAIN = 1e-9  # smaller gains count as rounding
TURN_AFTER, TURN_BEFORE, SHIFT = (
    0,
    1,
    2,
)  # moves: turn the stretch after x or before y round; SHIFT + shape of a segment


class Graph(NamedTuple):
    """Co-occurrence of labels, a symmetric CSR matrix with sorted indices: ptr, idx int64, val float64."""

    ptr: np.ndarray
    idx: np.ndarray
    val: np.ndarray


class Path(NamedTuple):
    """Labels in their order (order int64 [n]), and the place of each label in it (place int64 [n])."""

    order: np.ndarray
    place: np.ndarray


class Near(NamedTuple):
    """Labels to try beside each label, heaviest first: labels[ptr[label] : ptr[label + 1]]."""

    ptr: np.ndarray
    labels: np.ndarray


@jit
def find_entry(graph, u, v):
    """Where entry (u, v) of the matrix is, or would be."""
    low, high = graph.ptr[u], graph.ptr[u + 1]
    while low < high:
        middle = (low + high) // 2
        if graph.idx[middle] < v:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def weigh(graph, u, v):
    """The weight of two labels as neighbours; label -1 is beyond an end of the path, and weighs nothing."""
    if u < 0 or v < 0:
        return 0.0
    at = find_entry(graph, u, v)
    return graph.val[at] if at < graph.ptr[u + 1] and graph.idx[at] == v else 0.0


@jit
def join_greedily(n, first, second, order):
    """Join pairs of labels, best first, while both are ends of different paths; then put all paths in a row."""
    parent = np.arange(n)
    degree = np.zeros(n, np.int64)
    beside = np.full((n, 2), -1)
    for e in range(len(first)):
        u, v = first[e], second[e]
        if degree[u] == 2 or degree[v] == 2:
            continue
        a, b = u, v
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        if a != b:
            parent[a] = b
            beside[u, degree[u]], beside[v, degree[v]] = v, u
            degree[u] += 1
            degree[v] += 1
    seen = np.zeros(n, np.bool_)
    count = 0
    for end in range(n):
        u = end if degree[end] < 2 and not seen[end] else -1
        while u >= 0:
            seen[u] = True
            order[count] = u
            count += 1
            following = -1
            for q in range(degree[u]):
                if not seen[beside[u, q]]:
                    following = beside[u, q]
            u = following


@jit
def reverse(path, i, j):
    """Turn the labels at places i..j round."""
    order, place = path.order, path.place
    while i < j:
        order[i], order[j] = order[j], order[i]
        place[order[i]], place[order[j]] = i, j
        i += 1
        j -= 1


@jit
def label_at(path, i):
    """The label at a place, -1 beyond the ends."""
    return path.order[i] if 0 <= i < len(path.order) else -1


@jit
def segment_gain(path, graph, s, t, length, forward, before):
    """The gain of moving the `length` labels from s on (forward or backward), so that s stands beside t.

    before: on the side of lower places. -inf where that cannot be done.
    """
    order, place = path.order, path.place
    low = place[s] if forward else place[s] - length + 1
    high = low + length - 1
    at = place[t]
    beside = at - 1 if before else at + 1
    if low < 0 or high >= len(order) or low <= at <= high or low <= beside <= high:
        return -np.inf
    other = order[high] if forward else order[low]
    left, right, u = label_at(path, low - 1), label_at(path, high + 1), label_at(path, beside)
    gain = weigh(graph, left, right) + weigh(graph, s, t) + weigh(graph, other, u)
    gain -= weigh(graph, left, order[low]) + weigh(graph, order[high], right)
    return gain - weigh(graph, t, u)


@jit
def move_segment(path, s, t, length, forward, before):
    """Make the move that `segment_gain` values."""
    place = path.place
    low = place[s] if forward else place[s] - length + 1
    high = low + length - 1
    at = place[t]
    if at > high:
        end = at - 1 if before else at
        reverse(path, low, high)
        reverse(path, high + 1, end)
        reverse(path, low, end)
        low, high = end - length + 1, end
    else:
        start = at if before else at + 1
        reverse(path, low, high)
        reverse(path, start, low - 1)
        reverse(path, start, high)
        low, high = start, start + length - 1
    if abs(place[s] - place[t]) != 1:
        reverse(path, low, high)


@jit
def segment_of(shape, a, b):
    """Arguments (s, t, length, forward, before) of `segment_gain` for one of 8 * LONGEST shapes of a move."""
    s, t = (a, b) if shape & 1 else (b, a)
    return s, t, shape // 8 + 1, shape & 2 != 0, shape & 4 != 0


@jit
def find_move(path, graph, a, b, own):
    """The best move that brings labels a and b together, -1 where none gains. own: the weight of a and b."""
    i, j = min(path.place[a], path.place[b]), max(path.place[a], path.place[b])
    x, y = path.order[i], path.order[j]
    x_after, y_after = label_at(path, i + 1), label_at(path, j + 1)
    x_before, y_before = label_at(path, i - 1), label_at(path, j - 1)
    best, move = GAIN, -1
    gain = own + weigh(graph, x_after, y_after)
    gain -= weigh(graph, x, x_after) + weigh(graph, y, y_after)
    if gain > best:
        best, move = gain, TURN_AFTER
    gain = own + weigh(graph, x_before, y_before)
    gain -= weigh(graph, x, x_before) + weigh(graph, y, y_before)
    if gain > best:
        best, move = gain, TURN_BEFORE
    for shape in range(8 * LONGEST):
        s, t, length, forward, before = segment_of(shape, a, b)
        gain = segment_gain(path, graph, s, t, length, forward, before)
        if gain > best:
            best, move = gain, SHIFT + shape
    return move


@jit
def make_move(path, a, b, move, touched):
    """Make a move of `find_move`; lists in `touched` the labels that got other neighbours, and returns their number."""
    place = path.place
    i, j = min(place[a], place[b]), max(place[a], place[b])
    n_touched = 0
    for at in (i, j, i + 1, j + 1, i - 1, j - 1):
        touched[n_touched] = label_at(path, at)
        n_touched += 1
    if move == TURN_AFTER:
        reverse(path, i + 1, j)
    elif move == TURN_BEFORE:
        reverse(path, i, j - 1)
    else:
        s, t, length, forward, before = segment_of(move - SHIFT, a, b)
        for at in (place[s] - length, place[s] - length + 1, place[s] + length - 1, place[s] + length):
            touched[n_touched] = label_at(path, at)
            n_touched += 1
        move_segment(path, s, t, length, forward, before)
    return n_touched


@jit
def improve_path(path, graph, near, queue, n_queued):
    """Bring queued labels beside labels they weigh much with, as long as the path gains. Returns the number of moves.

    queue: a ring of n places, the first n_queued are used. A move turns a stretch of the path round, or shifts up to
    LONGEST labels. Labels that got other neighbours are queued again.
    """
    n, place = len(path.order), path.place
    waiting = np.zeros(n, np.bool_)
    waiting[queue[:n_queued]] = True
    touched = np.empty(14, np.int64)
    first, moves = 0, 0
    while n_queued:
        a = queue[first]
        first = (first + 1) % n
        n_queued -= 1
        waiting[a] = False
        q = near.ptr[a]
        while q < near.ptr[a + 1]:
            b = near.labels[q]
            q += 1
            if abs(place[a] - place[b]) == 1:
                continue
            own = weigh(graph, a, b)
            left, right = label_at(path, place[a] - 1), label_at(path, place[a] + 1)
            if own <= min(weigh(graph, a, left), weigh(graph, a, right)):
                break  # both neighbours weigh more than b and all labels after it
            move = find_move(path, graph, a, b, own)
            if move < 0:
                continue
            n_touched = make_move(path, a, b, move, touched)
            moves += 1
            for label in touched[:n_touched]:
                if label >= 0 and not waiting[label]:
                    waiting[label] = True
                    queue[(first + n_queued) % n] = label
                    n_queued += 1
            q = near.ptr[a]
    return moves


@jit
def add_weight(graph, indptr, indices, sets, more):
    """Let some sets count more: `more[q]` for all pairs of labels of set number `sets[q]`."""
    for q in range(len(sets)):
        begin, end = indptr[sets[q]], indptr[sets[q] + 1]
        for e in range(begin, end):
            for f in range(begin, end):
                if e != f:
                    graph.val[find_entry(graph, indices[e], indices[f])] += more[q]
