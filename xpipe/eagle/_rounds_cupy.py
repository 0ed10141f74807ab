"""The rounds of the discriminative method on a device: many labels in step, the t-th group of each at a time.

Holds no sums of groups (`_visits_cupy`) and no choice of what goes to a device (`device_rounds`). It follows
`_rounds_numba`: a label goes from group to group in the same order and by the same rules; groups that are settled rest.
Sums have another order, so numbers end in other digits. The device is asked once per round which groups still move.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from xpipe.eagle._rounds_numba import UNTOLD, Schedule
from xpipe.eagle._visits_cupy import Sums, Visit
from xpipe.eagle.device_rows import DeviceRows
from xpipe.ground.sparse_rows import row_pointers


class LabelSlots(NamedTuple):
    """The groups with members of the labels of a batch, in the order of rounds, and their pairs; all on the host.

    label: from 0 on, ascending. group: numbers on the device. keys: label * n_samples + sample of each pair, ascending.
    """

    n_labels: int
    label: np.ndarray
    group: np.ndarray
    keys: np.ndarray


class FittedSlots(NamedTuple):
    """Posterior and score of each pair, float32; log sums of the groups, float64 [slots, powers]; on the host."""

    posterior: np.ndarray
    score: np.ndarray
    having: np.ndarray
    lacking: np.ndarray


class Rounds:
    """The rounds of a batch of labels. Members of groups are numbered slot by slot."""

    def __init__(self, rows: DeviceRows, slots: LabelSlots, most_bytes: int):
        xp = self.xp = rows.xp
        self.rows, self.slots, self.most_bytes = rows, slots, most_bytes
        self.sizes = rows.counts.members[slots.group]
        first = row_pointers(self.sizes)
        self.label, self.group, self.first = map(xp.asarray, (slots.label, slots.group, first[:-1]))
        self.keys = xp.asarray(slots.keys)
        self.sums = Sums(rows, slots.n_labels)
        self.told = xp.zeros(len(slots.keys), dtype=xp.float32)
        self.pair = xp.zeros(int(first[-1]), dtype=xp.int64)
        self.chances = xp.zeros(int(first[-1]), dtype=xp.float32)
        for chosen in self.in_pieces(np.arange(len(slots.group))):
            visit, members = self.visit(chosen)
            keys = visit.label[visit.slot] * rows.n_samples + visit.sample
            self.pair[members] = xp.searchsorted(self.keys, keys)
            self.chances[members] = (1.0 / visit.size.astype(xp.float64)).astype(xp.float32)[visit.slot]
        self.of_pair = xp.argsort(self.pair)  # the members of each pair, side by side
        bounds = xp.searchsorted(self.pair[self.of_pair], xp.arange(len(slots.keys) + 1))
        self.pair_first, self.pair_count = bounds[:-1], bounds[1:] - bounds[:-1]
        self.most_groups = int(self.pair_count.max())  # of one sample, with one label

    def visit(self, chosen: np.ndarray) -> tuple[Visit, Any]:
        """(some slots, the numbers of their members)."""
        slots = self.xp.asarray(chosen)
        visit = Visit(self.rows, self.label[slots], self.group[slots], self.slots.group[chosen])
        return visit, self.first[slots][visit.slot] + visit.place

    def in_pieces(self, chosen: np.ndarray) -> Iterator[np.ndarray]:
        """Some slots, as many at a time as memory allows."""
        yield from cut_by_bytes(chosen, visit_bytes(self.rows, self.slots.group[chosen]), self.most_bytes)

    def largest(self, values: Any, pairs: Any | None = None) -> Any:
        """The largest of the values of the members of pairs; by default of all pairs."""
        xp = self.xp
        first, count = self.pair_first, self.pair_count
        if pairs is not None:
            first, count = first[pairs], count[pairs]
        found = values[self.of_pair[first]]
        for number in range(1, self.most_groups):
            found = xp.maximum(found, values[self.of_pair[first + xp.minimum(count - 1, number)]])
        return found

    def steps(self, moving: np.ndarray) -> Iterator[np.ndarray]:
        """The moving slots of a round: step t has the t-th one of each label."""
        chosen = np.flatnonzero(moving)
        labels = self.slots.label[chosen]
        place = np.arange(len(chosen)) - np.searchsorted(labels, labels)
        order = np.argsort(place, kind="stable")
        cuts = np.flatnonzero(np.diff(place[order])) + 1
        for step in np.split(chosen[order], cuts):
            yield from self.in_pieces(step)

    def start(self) -> None:
        """Tell the sums of the first posteriors."""
        everything = np.ones(len(self.slots.group), bool)
        for chosen in self.steps(everything):
            visit, members = self.visit(chosen)
            self.tell(visit, members, np.float32(0))

    def tell(self, visit: Visit, members: Any, least: np.float32) -> None:
        """Tell the sums of posteriors that have changed by more than `least`."""
        xp, pairs = self.xp, self.pair[members]
        news = self.largest(self.chances, pairs) - self.told[pairs]
        news = xp.where(xp.abs(news) > least, news, np.float32(0))
        self.told[pairs] = self.told[pairs] + news
        visit.tell(news, self.sums)

    def score(self, visit: Visit, members: Any) -> tuple[Any, Any]:
        """(scores without the groups themselves, the largest change of a posterior in each group)."""
        scores = visit.left_out(visit.scores(self.sums), self.told[self.pair[members]])
        chances = visit.noisy_or(scores)
        change = visit.largest(self.xp.abs(chances - self.chances[members]))
        self.chances[members] = chances
        return scores, change

    def alternate(self, schedule: Schedule) -> None:
        """All rounds but the last one of each label."""
        xp = self.xp
        least = np.float32(UNTOLD * schedule.tolerance)
        moving = xp.ones(len(self.slots.group), dtype=xp.bool_)
        known = np.ones(len(self.slots.group), bool)
        for _ in range(schedule.rounds - 1):
            for chosen in self.steps(known):
                visit, members = self.visit(chosen)
                _, change = self.score(visit, members)
                moving[xp.asarray(chosen)] = change >= schedule.tolerance
                self.tell(visit, members, least)
            known = to_host(moving)
            if not known.any():
                break

    def finish(self, quarters: np.ndarray, lacking: LabelSlots) -> FittedSlots:
        """The last round, which scores all groups and changes no sums, and the sums of scores to some powers."""
        xp = self.xp
        outside = xp.zeros(len(self.pair), dtype=xp.float32)
        having, lacked = (np.full((len(slots.group), len(quarters)), -np.inf) for slots in (self.slots, lacking))
        for chosen in self.in_pieces(np.arange(len(self.slots.group))):
            visit, members = self.visit(chosen)
            scores, _ = self.score(visit, members)
            outside[members] = scores
            if len(quarters):
                having[chosen] = to_host(visit.log_sums(scores, quarters))
        places = np.arange(len(lacking.group))
        for chosen in cut_by_bytes(places, visit_bytes(self.rows, lacking.group), self.most_bytes):
            groups = lacking.group[chosen]
            visit = Visit(self.rows, xp.asarray(lacking.label[chosen]), xp.asarray(groups), groups)
            told = self.look_up(visit.label[visit.slot] * self.rows.n_samples + visit.sample)
            lacked[chosen] = to_host(visit.log_sums(visit.left_out(visit.scores(self.sums), told), quarters))
        return FittedSlots(to_host(self.largest(self.chances)), to_host(self.largest(outside)), having, lacked)

    def look_up(self, keys: Any) -> Any:
        """The posteriors that the sums know of; 0 where a key is that of no pair."""
        xp = self.xp
        place = xp.minimum(xp.searchsorted(self.keys, keys), len(self.keys) - 1)
        return xp.where(self.keys[place] == keys, self.told[place], np.float32(0))


def visit_bytes(rows: DeviceRows, groups: np.ndarray) -> np.ndarray:
    """About what a visit of each group takes on the device while it is computed."""
    counts = rows.counts
    per_member = 100 + 16 * rows.rank
    found: np.ndarray = 60 * counts.entries[groups] + per_member * counts.members[groups] + 60 * counts.kin[groups]
    return found


def cut_by_bytes(items: np.ndarray, n_bytes: np.ndarray, most: int) -> Iterator[np.ndarray]:
    """Consecutive items that take at most `most` bytes together, or one item that takes more. n_bytes: of each."""
    start, ends = 0, np.cumsum(n_bytes)
    while start < len(items):
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + most, side="right")), start + 1)
        yield items[start:stop]
        start = stop


def to_host(array: Any) -> np.ndarray:
    """The array in the memory of the host."""
    return array.get() if hasattr(array, "get") else np.asarray(array)
