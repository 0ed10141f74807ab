"""Kernels for label order: a path through labels that co-occur, and moves that make it better.

Holds no choice of weights. The matrix of co-occurrence is symmetric CSR with sorted indices (ptr, idx, val). Two labels
side by side save every set that has both two sign changes: a path is worth the sum of its neighbours' weights.
"""

from __future__ import annotations

import numpy as np

from xpipe.ground.accelerate import jit

LONGEST = 3  # labels moved together
GAIN = 1e-9


@jit
def find_entry(ptr, idx, u, v):
    low, high = ptr[u], ptr[u + 1]
    while low < high:
        middle = (low + high) // 2
        if idx[middle] < v:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def weigh(ptr, idx, val, u, v):
    """The weight of two labels as neighbours; -1 stands for what is beyond an end."""
    if u < 0 or v < 0:
        return 0.0
    at = find_entry(ptr, idx, u, v)
    return val[at] if at < ptr[u + 1] and idx[at] == v else 0.0


@jit
def join_greedily(n, first, second, order):
    """Paths from pairs of labels, best first: joined while both are ends of different paths; then all in a row."""
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
def reverse(order, place, i, j):
    while i < j:
        order[i], order[j] = order[j], order[i]
        place[order[i]], place[order[j]] = i, j
        i += 1
        j -= 1


@jit
def label_at(order, i):
    return order[i] if 0 <= i < len(order) else -1


@jit
def segment_gain(order, place, ptr, idx, val, s, t, length, forward, before):
    """What is gained by moving the `length` labels from s on (forward or backward) so that s stands beside t.

    before: on the side of lower places. -inf where that cannot be done.
    """
    low = place[s] if forward else place[s] - length + 1
    high = low + length - 1
    at = place[t]
    beside = at - 1 if before else at + 1
    if low < 0 or high >= len(order) or low <= at <= high or low <= beside <= high:
        return -np.inf
    other = order[high] if forward else order[low]
    left, right, u = label_at(order, low - 1), label_at(order, high + 1), label_at(order, beside)
    gain = weigh(ptr, idx, val, left, right) + weigh(ptr, idx, val, s, t) + weigh(ptr, idx, val, other, u)
    gain -= weigh(ptr, idx, val, left, order[low]) + weigh(ptr, idx, val, order[high], right)
    return gain - weigh(ptr, idx, val, t, u)


@jit
def move_segment(order, place, s, t, length, forward, before):
    low = place[s] if forward else place[s] - length + 1
    high = low + length - 1
    at = place[t]
    if at > high:
        end = at - 1 if before else at
        reverse(order, place, low, high)
        reverse(order, place, high + 1, end)
        reverse(order, place, low, end)
        low, high = end - length + 1, end
    else:
        start = at if before else at + 1
        reverse(order, place, low, high)
        reverse(order, place, start, low - 1)
        reverse(order, place, start, high)
        low, high = start, start + length - 1
    if abs(place[s] - place[t]) != 1:
        reverse(order, place, low, high)


@jit
def improve_path(order, place, ptr, idx, val, near_ptr, near, queue, n_queued):
    """Bring labels of the queue beside labels they weigh much with, as long as the path gains; gives the moves made.

    near: the labels to try for each label, heaviest first. Moves: turn a stretch round, or shift up to LONGEST labels.
    """
    n = len(order)
    waiting = np.zeros(n, np.bool_)
    waiting[queue[:n_queued]] = True
    touched = np.empty(14, np.int64)
    first, moves = 0, 0
    while n_queued:
        a = queue[first]
        first = (first + 1) % n
        n_queued -= 1
        waiting[a] = False
        q = near_ptr[a]
        while q < near_ptr[a + 1]:
            b = near[q]
            q += 1
            i, j = min(place[a], place[b]), max(place[a], place[b])
            if j - i == 1:
                continue
            own = weigh(ptr, idx, val, a, b)
            left, right = label_at(order, place[a] - 1), label_at(order, place[a] + 1)
            if own <= min(weigh(ptr, idx, val, a, left), weigh(ptr, idx, val, a, right)):
                break  # both neighbours are worth more than b and all that follow it
            x, y = order[i], order[j]
            x_after, y_after = label_at(order, i + 1), label_at(order, j + 1)
            x_before, y_before = label_at(order, i - 1), label_at(order, j - 1)
            best, kind = GAIN, -1
            gain = own + weigh(ptr, idx, val, x_after, y_after)
            gain -= weigh(ptr, idx, val, x, x_after) + weigh(ptr, idx, val, y, y_after)
            if gain > best:
                best, kind = gain, 0
            gain = own + weigh(ptr, idx, val, x_before, y_before)
            gain -= weigh(ptr, idx, val, x, x_before) + weigh(ptr, idx, val, y, y_before)
            if gain > best:
                best, kind = gain, 1
            for shape in range(8 * LONGEST):
                s, t = (a, b) if shape & 1 else (b, a)
                gain = segment_gain(order, place, ptr, idx, val, s, t, shape // 8 + 1, shape & 2 != 0, shape & 4 != 0)
                if gain > best:
                    best, kind = gain, 2 + shape
            if kind < 0:
                continue
            n_touched = 0
            for label in (x, y, x_after, y_after, x_before, y_before):
                touched[n_touched] = label
                n_touched += 1
            if kind == 0:
                reverse(order, place, i + 1, j)
            elif kind == 1:
                reverse(order, place, i, j - 1)
            else:
                shape = kind - 2
                s, t = (a, b) if shape & 1 else (b, a)
                length = shape // 8 + 1
                for at in (place[s] - length, place[s] - length + 1, place[s] + length - 1, place[s] + length):
                    touched[n_touched] = label_at(order, at)
                    n_touched += 1
                move_segment(order, place, s, t, length, shape & 2 != 0, shape & 4 != 0)
            moves += 1
            for label in touched[:n_touched]:
                if label >= 0 and not waiting[label]:
                    waiting[label] = True
                    queue[(first + n_queued) % n] = label
                    n_queued += 1
            q = near_ptr[a]
    return moves


@jit
def add_weight(ptr, idx, val, indptr, indices, sets, more):
    """Let some sets count more: `more` each for all pairs of their labels."""
    for q in range(len(sets)):
        begin, end = indptr[sets[q]], indptr[sets[q] + 1]
        for e in range(begin, end):
            for f in range(begin, end):
                if e != f:
                    val[find_entry(ptr, idx, indices[e], indices[f])] += more[q]
