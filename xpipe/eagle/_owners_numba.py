"""Kernels of the discriminative method: one label at a time, whitened scores and noisy-or posteriors in turn.

Arrays in, preallocated arrays out. Symbols: x = scaled sparse row, p = dense coordinates along the leading directions,
q = posterior that a sample owns the label, s = its score, kinship = what a row of a group adds to another's score.
"""

import numpy as np

from xpipe.ground.accelerate import jit

TILE_ROWS = 128  # rows whose coordinates lie side by side: enough for every lane, few enough for the cache
TURNED_AT_ONCE = 64  # coordinates of a tile that are turned before the next ones
FLOOR, CEILING = 1e-4, 0.999  # no sample is ruled out, none is certain
RULED_OUT = 1e-6  # the least chance a held-out sample is given
SURE = 1e30  # the highest score that counts: powers of it stay finite
SMALL_HAZARD = -30.0  # log of a hazard h below which 1 - exp(-h) is h in float64
UNSAID = 5e-4  # a change of a posterior that need not reach the sums yet


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
def turn(coordinates, rows, tile):
    """tile[:, i] = coordinates[rows[i]], some coordinates at a time, so that what is written stays in cache."""
    for start in range(0, tile.shape[0], TURNED_AT_ONCE):
        stop = min(start + TURNED_AT_ONCE, tile.shape[0])
        for at in range(len(rows)):
            source = coordinates[rows[at]]
            for c in range(start, stop):
                tile[c, at] = source[c]


@jit
def subtract_leading(tile, leading, scores):
    """scores -= products along the leading directions; `tile` is rank x rows, so that no sum runs across a row.

    A sum down the columns has one fixed order and still uses every lane of the processor.
    """
    for c in range(len(leading)):
        weight = leading[c]
        source = tile[c]
        for place in range(len(scores)):
            scores[place] -= weight * source[place]


@jit
def kinship_of_groups(
    groups, group_indptr, group_samples, indptr, indices, values, coordinates, starts, dense, kinship
):
    """kinship[starts[g] + i * size + j] = <x_i, x_j> - <p_i, p_j> for members i, j of group g, or none at all.

    dense [n_features] is zero on entry and exit.
    """
    for group in groups:
        if starts[group] < 0:
            continue
        members = group_samples[group_indptr[group] : group_indptr[group + 1]]
        size, rank = len(members), coordinates.shape[1]
        turned = np.empty((rank, size), np.float32)  # as in `subtract_leading`: no sum runs across a row
        turn(coordinates, members, turned)
        for one in range(size):
            row = members[one]
            found = kinship[starts[group] + one * size : starts[group] + (one + 1) * size]
            for entry in range(indptr[row], indptr[row + 1]):
                dense[indices[entry]] = values[entry]
            score_rows(members, indptr, indices, values, dense, found)
            subtract_leading(turned, coordinates[row], found)
            for entry in range(indptr[row], indptr[row + 1]):
                dense[indices[entry]] = 0


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
def leave_groups_out(groups, group_ends, members, rows, starts, kinship, influence, told, scores, outside):
    """outside[place] = the score of a member without what its own group added; without its own part where the group is
    too large for that."""
    start = 0
    for number in range(len(groups)):
        stop, kin = group_ends[number], starts[groups[number]]
        size = stop - start
        for place in range(start, stop):
            outside[place] = scores[members[place]]
            if kin < 0:
                outside[place] -= influence[rows[members[place]]] * told[members[place]]
        if kin >= 0:
            inside = outside[start:stop]
            for other in range(size):
                weight = told[members[start + other]]
                if weight != 0:
                    source = kinship[kin + other * size : kin + (other + 1) * size]
                    for place in range(size):
                        inside[place] -= weight * source[place]
        start = stop


@jit
def posteriors(group_ends, members, outside, owned):
    """Noisy-or over each group: owned = probability of owning the label given that somebody of the group does.

    A sample of several groups takes its largest posterior.
    """
    owned[:] = 0
    start = 0
    for group in range(len(group_ends)):
        stop = group_ends[group]
        log_none = 0.0
        for place in range(start, stop):
            chance = min(max(outside[place], FLOOR), CEILING)
            log_none += np.log1p(-chance)
        some = -np.expm1(log_none)
        for place in range(start, stop):
            chance = min(max(outside[place], FLOOR), CEILING)
            owned[members[place]] = max(owned[members[place]], np.float32(chance / some))
        start = stop


@jit
def log_norm_of(scores, power):
    """log of the power-norm of a group's scores: their sum for power 1, nearly their maximum for a high one."""
    total = 0.0
    for place in range(len(scores)):
        total += min(max(scores[place], RULED_OUT), SURE) ** power
    return np.log(total) / power


@jit
def log_chance(log_hazard):
    """log(1 - exp(-e^log_hazard)), finite for any finite hazard: a chance itself would round to zero."""
    if log_hazard < SMALL_HAZARD:
        return log_hazard
    return np.log(-np.expm1(-np.exp(min(log_hazard, -SMALL_HAZARD))))


@jit
def copy_rows(rows, indptr, indices, values, own_indptr, own_indices, own_values):
    """The sparse rows one after the other: rounds then run through memory in order."""
    end = 0
    own_indptr[0] = 0
    for place in range(len(rows)):
        for entry in range(indptr[rows[place]], indptr[rows[place] + 1]):
            own_indices[end] = indices[entry]
            own_values[end] = values[entry]
            end += 1
        own_indptr[place + 1] = end


@jit
def fit_labels(
    labels, pair_indptr, pair_rows, label_groups_indptr, label_groups, group_indptr, group_samples,
    indptr, indices, values, coordinates, influence, starts, kinship, rounds, tolerance, position, dense, leading,
    tiles, own_indices, own_values, posterior, score,
):  # fmt: skip
    """Alternate scores and posteriors for some labels; posterior and score are filled at their pairs.

    A sample of several groups takes its largest posterior and score.

    Work space of one thread: position int32 [n_samples], dense [n_features] and leading [rank], zero on entry and exit,
    tiles [some, rank, TILE_ROWS] for the coordinates of a label's rows, at least one, own_indices and own_values [some]
    for their entries.
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
        outside = np.empty(n_members, np.float32)
        rounds_of_label(
            rows, label_groups[label_groups_indptr[label] : label_groups_indptr[label + 1]], group_ends, members,
            indptr, indices, values, coordinates, influence, starts, kinship, rounds, tolerance, dense, leading, tiles,
            own_indices, own_values, owned, scores, outside,
        )  # fmt: skip
        scores[:] = -np.inf
        for place in range(n_members):
            scores[members[place]] = max(scores[members[place]], outside[place])


@jit
def rounds_of_label(
    rows, groups, group_ends, members, indptr, indices, values, coordinates, influence, starts, kinship, rounds,
    tolerance, dense, leading, tiles, own_indices, own_values, owned, scores, outside,
):  # fmt: skip
    """The rounds of one label, from the posteriors in `owned` on; `outside`: the last scores of groups' members."""
    n_tiles = -(-len(rows) // TILE_ROWS)
    kept = n_tiles <= len(tiles)  # else they are turned anew in every round
    if kept:
        for number in range(n_tiles):
            turn(coordinates, rows[number * TILE_ROWS : (number + 1) * TILE_ROWS], tiles[number])
    n_entries = 0
    for place in range(len(rows)):
        n_entries += indptr[rows[place] + 1] - indptr[rows[place]]
    own, own_indptr = rows, indptr
    if n_entries <= len(own_indices):
        own, own_indptr = np.arange(len(rows)).astype(np.int32), np.empty(len(rows) + 1, np.int64)
        copy_rows(rows, indptr, indices, values, own_indptr, own_indices, own_values)
    else:
        own_indices, own_values = indices, values
    before = np.empty(len(rows), np.float32)
    told, news = np.zeros(len(rows), np.float32), np.empty(len(rows), np.float32)
    for _ in range(rounds):
        before[:] = owned
        for place in range(len(rows)):  # the sums hear of posteriors that moved; most settle after a few rounds
            news[place] = owned[place] - told[place]
            if abs(news[place]) <= UNSAID:
                news[place] = 0
            told[place] += news[place]
        add_rows(own, news, own_indptr, own_indices, own_values, dense)
        add_leading(rows, news, coordinates, leading)
        score_rows(own, own_indptr, own_indices, own_values, dense, scores)
        for number in range(n_tiles):
            inside = slice(number * TILE_ROWS, (number + 1) * TILE_ROWS)
            tile = tiles[number if kept else 0]
            if not kept:
                turn(coordinates, rows[inside], tile)
            subtract_leading(tile, leading, scores[inside])
        leave_groups_out(groups, group_ends, members, rows, starts, kinship, influence, told, scores, outside)
        posteriors(group_ends, members, outside, owned)
        change = np.float32(0)
        for place in range(len(rows)):
            change = max(change, abs(owned[place] - before[place]))
        if change < tolerance:
            break
    clear_rows(own, own_indptr, own_indices, dense)
    leading[:] = 0


@jit
def add_owners(rows, weights, indptr, indices, values, coordinates, dense, leading, sums, turned, lane):
    """Put the weighted sums of a label's rows into a lane of `sums` and `turned`; dense and leading are zero again."""
    add_rows(rows, weights, indptr, indices, values, dense)
    add_leading(rows, weights, coordinates, leading)
    for place in range(len(rows)):
        for entry in range(indptr[rows[place]], indptr[rows[place] + 1]):
            sums[indices[entry], lane] = dense[indices[entry]]
    turned[:, lane] = leading
    clear_rows(rows, indptr, indices, dense)
    leading[:] = 0


@jit
def score_groups(
    labels, weight_indptr, weight_rows, weights, indptr, indices, values, coordinates,
    held_rows, held_indptr, dense, leading, sums, turned, scores, powers, log_none, log_norms,
):  # fmt: skip
    """log_none[i, j] = log probability that no sample of held-out group j has label i, under weights learnt elsewhere;
    log_norms[n, i, j] = log of the powers[n]-norm of the scores there.

    held_rows: samples of the held-out groups, one after the other. Work space of one thread, zero on entry and exit:
    dense [n_features], leading [rank], and for some labels at once, side by side, sums [n_features, lanes]; turned
    [rank, lanes] and scores [len(held_rows), lanes] may hold anything.
    """
    lanes = sums.shape[1]
    for first in range(0, len(labels), lanes):
        some = labels[first : first + lanes]
        for lane in range(len(some)):
            inside = slice(weight_indptr[some[lane]], weight_indptr[some[lane] + 1])
            add_owners(
                weight_rows[inside], weights[inside], indptr, indices, values, coordinates, dense, leading, sums,
                turned, lane,
            )  # fmt: skip
        scores[:] = 0
        for place in range(len(held_rows)):
            row, found = held_rows[place], scores[place]
            for entry in range(indptr[row], indptr[row + 1]):
                source, value = sums[indices[entry]], values[entry]
                for lane in range(lanes):
                    found[lane] += value * source[lane]
            for c in range(len(leading)):
                source, value = turned[c], coordinates[row, c]
                for lane in range(lanes):
                    found[lane] -= value * source[lane]
        for lane in range(len(some)):
            clear_rows(weight_rows[weight_indptr[some[lane]] : weight_indptr[some[lane] + 1]], indptr, indices, sums)
            for group in range(len(held_indptr) - 1):
                total = 0.0
                for place in range(held_indptr[group], held_indptr[group + 1]):
                    total += np.log1p(-min(max(scores[place, lane], RULED_OUT), CEILING))
                log_none[first + lane, group] = total
                inside = scores[held_indptr[group] : held_indptr[group + 1], lane]
                for number in range(len(powers)):
                    log_norms[number, first + lane, group] = log_norm_of(inside, powers[number])


@jit
def best_of_groups(
    labels, pair_indptr, pair_rows, posterior, label_groups_indptr, label_groups, group_indptr, group_samples, best
):
    """best[pair] = True for the largest posterior of each (group, label); the smallest sample number on ties.

    Every group with members has one, whatever the numbers: one that is NaN loses against any other.
    """
    for label in labels:
        rows = pair_rows[pair_indptr[label] : pair_indptr[label + 1]]
        for at in range(label_groups_indptr[label], label_groups_indptr[label + 1]):
            group = label_groups[at]
            winner, largest = -1, np.float32(-np.inf)
            for place in range(group_indptr[group], group_indptr[group + 1]):
                pair = pair_indptr[label] + np.searchsorted(rows, group_samples[place])
                if winner < 0 or posterior[pair] > largest or (np.isnan(largest) and not np.isnan(posterior[pair])):
                    winner, largest = pair, posterior[pair]
            if winner >= 0:
                best[winner] = True


@jit
def judge_pairs(
    labels, pair_indptr, pair_rows, score, label_groups_indptr, label_groups, group_indptr, group_samples, offset,
    slope, per_group, power, posterior,
):  # fmt: skip
    """posterior[pair] = chance of a sample's score over that of its group's norm; the largest of its groups."""
    for label in labels:
        rows = pair_rows[pair_indptr[label] : pair_indptr[label + 1]]
        n_groups = label_groups_indptr[label + 1] - label_groups_indptr[label]
        start = offset + per_group * np.log(n_groups)
        for at in range(label_groups_indptr[label], label_groups_indptr[label + 1]):
            members = group_samples[group_indptr[label_groups[at]] : group_indptr[label_groups[at] + 1]]
            pairs, scores = np.empty(len(members), np.int64), np.empty(len(members), np.float64)
            for place in range(len(members)):
                pairs[place] = pair_indptr[label] + np.searchsorted(rows, members[place])
                scores[place] = min(max(score[pairs[place]], RULED_OUT), SURE)
            some = log_chance(start + slope * log_norm_of(scores, power))
            for place in range(len(members)):
                chance = np.exp(min(log_chance(start + slope * np.log(scores[place])) - some, 0.0))
                posterior[pairs[place]] = max(posterior[pairs[place]], np.float32(chance))
