"""Kernels of the discriminative method: one label at a time, whitened scores and noisy-or posteriors in turn.

Arrays in, preallocated arrays out. Symbols: x = scaled sparse row, p = dense coordinates along the leading directions,
h = a row's influence on its own score, q = posterior that a sample owns the label, s = its score.
"""

import numpy as np

from xpipe.accelerate import jit

TILE = 16  # a cache line of coordinates
BLOCK = 1024  # rows whose coordinates are turned at a time where a label has too many to keep
FLOOR, CEILING = 1e-4, 0.999  # no sample is ruled out, none is certain
RULED_OUT = 1e-6  # the least chance a held-out sample is given
UNSAID = 5e-4  # a change of a posterior that need not reach the sums yet
GATHERED = 1 << 24  # coordinates of a label's rows that are copied to run through memory in order (64 MiB)


@jit
def project_rows(indptr, indices, values, directions, first, last, out):
    """out[i - first] = row i times the directions (n_features x rank)."""
    rank = directions.shape[1]
    for row in range(first, last):
        target = out[row - first]
        for c in range(rank):
            target[c] = np.float32(0)
        for entry in range(indptr[row], indptr[row + 1]):
            value = values[entry]
            source = directions[indices[entry]]
            for c in range(rank):
                target[c] += value * source[c]


@jit
def own_influence(indptr, values, coordinates, influence):
    """influence[i] = <x_i, x_i> - <p_i, p_i>: what a row adds to its own score."""
    for row in range(len(influence)):
        total = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            total += values[entry] * values[entry]
        for c in range(coordinates.shape[1]):
            total -= coordinates[row, c] * coordinates[row, c]
        influence[row] = total


@jit
def gram_rows(turned_indptr, turned_rows, turned_values, indptr, indices, values, first, last, gram):
    """gram[f] = row f of X^T X for features first to last; `turned` is X by columns. A row of it stays in cache.

    A cell adds up its samples in order, whatever the number of threads.
    """
    for feature in range(first, last):
        target = gram[feature]
        for at in range(turned_indptr[feature], turned_indptr[feature + 1]):
            weight, row = turned_values[at], turned_rows[at]
            for entry in range(indptr[row], indptr[row + 1]):
                target[indices[entry]] += weight * values[entry]


@jit
def add_rows(rows, weights, indptr, indices, values, dense):
    """dense += the weighted sum of sparse rows."""
    for place in range(len(rows)):
        weight = weights[place]
        if weight != 0:
            for entry in range(indptr[rows[place]], indptr[rows[place] + 1]):
                dense[indices[entry]] += weight * values[entry]


@jit
def add_leading(places, weights, coordinates, leading):
    """leading += the weighted sum of rows of coordinates."""
    for at in range(len(places)):
        weight = weights[at]
        if weight != 0:
            source = coordinates[places[at]]
            for c in range(len(leading)):
                leading[c] += weight * source[c]


@jit
def score_rows(rows, indptr, indices, values, dense, scores):
    """scores = product of each sparse row with the label's sum; four sums at once, as one would wait for itself."""
    for place in range(len(rows)):
        entry, stop = indptr[rows[place]], indptr[rows[place] + 1]
        one, two, three, four = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        while entry + 4 <= stop:
            one += values[entry] * dense[indices[entry]]
            two += values[entry + 1] * dense[indices[entry + 1]]
            three += values[entry + 2] * dense[indices[entry + 2]]
            four += values[entry + 3] * dense[indices[entry + 3]]
            entry += 4
        while entry < stop:
            one += values[entry] * dense[indices[entry]]
            entry += 1
        scores[place] = (one + two) + (three + four)


@jit
def subtract_leading(turned, leading, scores):
    """scores -= products along the leading directions; `turned` is rank x rows, so that no sum runs across a row.

    A sum down the columns has one fixed order and still uses every lane of the processor.
    """
    for c in range(len(leading)):
        weight = leading[c]
        source = turned[c]
        for place in range(len(scores)):
            scores[place] -= weight * source[place]


@jit
def turn(coordinates, places, turned):
    """turned[:, i] = coordinates[places[i]], a tile at a time."""
    for start in range(0, turned.shape[0], TILE):
        stop = min(start + TILE, turned.shape[0])
        for at in range(len(places)):
            source = coordinates[places[at]]
            for c in range(start, stop):
                turned[c, at] = source[c]


@jit
def clear_rows(rows, indptr, indices, dense):
    """Set back to zero what `add_rows` touched, or everything where that is less."""
    touched = 0
    for place in range(len(rows)):
        touched += indptr[rows[place] + 1] - indptr[rows[place]]
    if touched > len(dense) // 8:
        dense[:] = 0
        return
    for place in range(len(rows)):
        for entry in range(indptr[rows[place]], indptr[rows[place] + 1]):
            dense[indices[entry]] = 0


@jit
def posteriors(group_ends, members, scores, owned):
    """Noisy-or over each group: owned = probability of owning the label given that somebody of the group does.

    A sample of several groups takes its largest posterior.
    """
    owned[:] = 0
    start = 0
    for group in range(len(group_ends)):
        stop = group_ends[group]
        log_none = 0.0
        for place in range(start, stop):
            chance = min(max(scores[members[place]], FLOOR), CEILING)
            log_none += np.log1p(-chance)
        some = -np.expm1(log_none)
        for place in range(start, stop):
            chance = min(max(scores[members[place]], FLOOR), CEILING)
            owned[members[place]] = max(owned[members[place]], np.float32(chance / some))
        start = stop


@jit
def fit_labels(
    labels, pair_indptr, pair_rows, label_groups_indptr, label_groups, group_indptr, group_samples,
    indptr, indices, values, coordinates, influence, rounds, tolerance, position, dense, leading,
    posterior, score,
):  # fmt: skip
    """Alternate scores and posteriors for some labels; posterior and score are filled at their pairs.

    position int32 [n_samples], dense [n_features], leading [rank]: work space of one thread, zero on entry and exit.
    """
    for label in labels:
        first, last = pair_indptr[label], pair_indptr[label + 1]
        if first == last:
            continue
        rows = pair_rows[first:last]
        owned, scores = posterior[first:last], score[first:last]
        for place in range(len(rows)):
            position[rows[place]] = place
        n_members, n_groups = 0, label_groups_indptr[label + 1] - label_groups_indptr[label]
        for at in range(label_groups_indptr[label], label_groups_indptr[label + 1]):
            n_members += group_indptr[label_groups[at] + 1] - group_indptr[label_groups[at]]
        members, group_ends = np.empty(n_members, np.int64), np.empty(n_groups, np.int64)
        n_members = 0
        owned[:] = 0
        for number in range(n_groups):
            group = label_groups[label_groups_indptr[label] + number]
            size = group_indptr[group + 1] - group_indptr[group]
            for place in range(group_indptr[group], group_indptr[group + 1]):
                member = position[group_samples[place]]
                members[n_members] = member
                n_members += 1
                owned[member] = max(owned[member], np.float32(1.0 / size))
            group_ends[number] = n_members
        rounds_of_label(
            rows, group_ends, members, indptr, indices, values, coordinates, influence, rounds, tolerance,
            dense, leading, owned, scores,
        )  # fmt: skip


@jit
def rounds_of_label(
    rows, group_ends, members, indptr, indices, values, coordinates, influence, rounds, tolerance,
    dense, leading, owned, scores,
):  # fmt: skip
    """The rounds of one label, from the posteriors in `owned` on."""
    places = np.arange(len(rows))
    gathered = len(rows) * len(leading) <= GATHERED
    if gathered:  # the rounds then run through memory in order
        source, where = coordinates[rows], places
    else:
        source, where = coordinates, rows.astype(np.int64)
    width = len(rows) if gathered else BLOCK
    turned = np.empty((len(leading), width), np.float32)
    if gathered:
        turn(source, where, turned)
    before = np.empty(len(rows), np.float32)
    told, news = np.zeros(len(rows), np.float32), np.empty(len(rows), np.float32)
    for _ in range(rounds):
        before[:] = owned
        for place in places:  # the sums hear of posteriors that moved; most settle after a few rounds
            news[place] = owned[place] - told[place]
            if abs(news[place]) <= UNSAID:
                news[place] = 0
            told[place] += news[place]
        add_rows(rows, news, indptr, indices, values, dense)
        add_leading(where, news, source, leading)
        score_rows(rows, indptr, indices, values, dense, scores)
        for first in range(0, len(rows), width):
            last = min(first + width, len(rows))
            if not gathered:
                turn(source, where[first:last], turned)
            subtract_leading(turned, leading, scores[first:last])
        for place in places:
            scores[place] -= influence[rows[place]] * told[place]
        posteriors(group_ends, members, scores, owned)
        change = np.float32(0)
        for place in places:
            change = max(change, abs(owned[place] - before[place]))
        if change < tolerance:
            break
    clear_rows(rows, indptr, indices, dense)
    leading[:] = 0


@jit
def score_groups(
    labels, weight_indptr, weight_rows, weights, indptr, indices, values, coordinates,
    held_rows, turned, held_indptr, dense, leading, scores, log_none, highest,
):  # fmt: skip
    """log_none[i, j] = log probability that no sample of held-out group j has label i, under weights learnt elsewhere;
    highest[i, j] = the highest score of a sample there.

    held_rows: samples of the held-out groups, one after the other; turned: their coordinates, rank x len(held_rows).
    """
    for at in range(len(labels)):
        inside = slice(weight_indptr[labels[at]], weight_indptr[labels[at] + 1])
        rows = weight_rows[inside]
        add_rows(rows, weights[inside], indptr, indices, values, dense)
        add_leading(rows, weights[inside], coordinates, leading)
        score_rows(held_rows, indptr, indices, values, dense, scores)
        subtract_leading(turned, leading, scores)
        clear_rows(rows, indptr, indices, dense)
        leading[:] = 0
        for group in range(len(held_indptr) - 1):
            total, most = 0.0, np.float32(RULED_OUT)
            for place in range(held_indptr[group], held_indptr[group + 1]):
                total += np.log1p(-min(max(scores[place], RULED_OUT), CEILING))
                most = max(most, scores[place])
            log_none[at, group] = total
            highest[at, group] = most


@jit
def best_of_groups(
    labels, pair_indptr, pair_rows, posterior, label_groups_indptr, label_groups, group_indptr, group_samples, best
):
    """best[pair] = True for the largest posterior of each (group, label); the smallest sample number on ties."""
    for label in labels:
        rows = pair_rows[pair_indptr[label] : pair_indptr[label + 1]]
        for at in range(label_groups_indptr[label], label_groups_indptr[label + 1]):
            group = label_groups[at]
            winner, largest = -1, np.float32(-1)
            for place in range(group_indptr[group], group_indptr[group + 1]):
                pair = pair_indptr[label] + np.searchsorted(rows, group_samples[place])
                if posterior[pair] > largest:
                    winner, largest = pair, posterior[pair]
            if winner >= 0:
                best[winner] = True
