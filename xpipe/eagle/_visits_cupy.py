"""Some groups of some labels, handled side by side on a device: scores of their members, and sums told of posteriors.

Holds no rounds (`_rounds_cupy`). A visit has at most one group of each label where it tells sums, so no two threads
write one number. Every number is a sum over one group in a fixed order: other groups beside it change no bit of it.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import Any

import numpy as np

from xpipe.eagle._pieces_cupy import passes_of, reduce_pieces, spread_known, sum_columns
from xpipe.eagle._posteriors_numba import CEILING, FLOOR, RULED_OUT, SURE
from xpipe.eagle._whitened_numba import MOST_OWN
from xpipe.eagle.device_rows import DeviceRows


class Sums:
    """The sums of the whitened rows of each label, weighted with posteriors: features (flat) and coordinates."""

    def __init__(self, rows: DeviceRows, n_labels: int):
        self.width = rows.n_features
        self.dense = rows.xp.zeros(n_labels * rows.n_features, dtype=rows.xp.float32)
        self.leading = rows.xp.zeros((n_labels, rows.rank), dtype=rows.xp.float32)


class Visit:
    """Groups with their labels, all with members.

    label, group: numbers on the device. numbers: the groups on the host, for what the host knows of them. slot, place:
    of each member, the number of its group here, and its place there. first: where the members of each group begin.
    """

    def __init__(self, rows: DeviceRows, label: Any, group: Any, numbers: np.ndarray):
        xp, counts = rows.xp, rows.counts
        self.rows, self.xp, self.label, self.group, self.numbers = rows, xp, label, group, numbers
        self.n_members = int(counts.members[numbers].sum())
        self.passes = passes_of(int(counts.members[numbers].max(initial=0)))
        self.size = rows.member_starts[group + 1] - rows.member_starts[group]
        self.slot, self.place, self.first = spread_known(xp, self.size, self.n_members)
        self.number = rows.member_starts[group][self.slot] + self.place  # of the membership
        self.sample = rows.samples[self.number]
        self.times = rows.absorbing.times(self.place, self.size[self.slot])
        lengths = rows.entry_starts[group + 1] - rows.entry_starts[group]
        n_entries = int(counts.entries[numbers].sum())
        self.entry_slot, place, self.entry_first = spread_known(xp, lengths, n_entries)
        self.entry = rows.entry_starts[group][self.entry_slot] + place

    def add(self, values: Any) -> Any:
        """The sum of the values of the members of each group; `values` is changed."""
        return reduce_pieces(self.xp, self.xp.add, values, self.times, self.passes)[self.first]

    def largest(self, values: Any) -> Any:
        """The largest value of the members of each group; `values` is changed."""
        return reduce_pieces(self.xp, self.xp.maximum, values, self.times, self.passes)[self.first]

    def scores(self, sums: Sums) -> Any:
        """The score of each member by the sums of its label."""
        rows, xp = self.rows, self.xp
        feature = self.label[self.entry_slot] * sums.width + rows.by_row.feature[self.entry]
        products = rows.by_row.value[self.entry] * sums.dense[feature]
        passes = passes_of(int(rows.counts.longest[self.numbers].max(initial=0)))
        products = reduce_pieces(xp, xp.add, products, rows.by_row.times[self.entry], passes)
        found = products[self.entry_first[self.slot] + rows.by_row.first[self.number]]
        along = rows.coordinates[self.sample] * sums.leading[self.label[self.slot]]
        return found - sum_columns(xp, along)

    def left_out(self, scores: Any, told: Any) -> Any:
        """The score that each member would have if the regression had never seen its group, see `leave_group_out`.

        told: the posteriors that the scores know of.
        """
        rows, xp = self.rows, self.xp
        missing = scores - told
        own = xp.minimum(xp.maximum(rows.influence[self.sample], np.float32(0)), np.float32(MOST_OWN))
        by_itself = missing / (np.float32(1) - own)
        total = int(rows.counts.kin[self.numbers].sum())
        if not total:
            return told + by_itself
        kin = rows.kin_starts[self.group]
        area = xp.where(kin >= 0, self.size * self.size, 0)
        slot, place, starts = spread_known(xp, area, total)
        size = self.size[slot]
        one, other = place // size, place % size
        shares = rows.kin_values[kin[slot] + other * size + one] * missing[self.first[slot] + other]
        shares = reduce_pieces(xp, xp.add, shares, rows.absorbing.times(other, size), self.passes)
        has_kin = kin[self.slot] >= 0
        at = xp.where(has_kin, starts[self.slot] + self.place * self.size[self.slot], 0)
        return told + xp.where(has_kin, shares[at], by_itself)

    def noisy_or(self, scores: Any) -> Any:
        """The chance of each member, given that some member of its group owns the label; float32."""
        xp = self.xp
        clipped = xp.minimum(xp.maximum(scores.astype(xp.float64), FLOOR), CEILING)
        some = -xp.expm1(self.add(xp.log1p(-clipped)))
        return (clipped / some[self.slot]).astype(xp.float32)

    def log_sums(self, scores: Any, quarters: np.ndarray) -> Any:
        """The log of the sum of the scores of each group to each power, [groups, powers], float64."""
        xp = self.xp
        root = xp.sqrt(xp.sqrt(xp.minimum(xp.maximum(scores.astype(xp.float64), RULED_OUT), SURE)))
        found = xp.zeros((len(self.size), len(quarters)))
        for number, quarter in enumerate(quarters.tolist()):
            power, square, left = None, root, quarter
            while left:
                if left & 1:
                    power = square if power is None else power * square
                square, left = square * square, left >> 1
            sums = self.add(xp.ones(self.n_members) if power is None else power.copy())
            found[:, number] = xp.log(sums)
        return found

    def tell(self, news: Any, sums: Sums) -> None:
        """Add the changes of the posteriors of all members to the sums. No label may be here twice."""
        rows, xp, columns = self.rows, self.xp, self.rows.by_column
        member = self.first[self.entry_slot] + columns.member[self.entry]
        weighted = columns.value[self.entry] * news[member]
        weighted = reduce_pieces(xp, xp.add, weighted, columns.times[self.entry], self.passes)
        lengths = columns.starts[self.group + 1] - columns.starts[self.group]
        n_columns = int(rows.counts.columns[self.numbers].sum())
        slot, place, _ = spread_known(xp, lengths, n_columns)
        column = columns.starts[self.group][slot] + place
        feature = self.label[slot] * sums.width + columns.feature[column]
        sums.dense[feature] = sums.dense[feature] + weighted[self.entry_first[slot] + columns.first[column]]
        along = rows.coordinates[self.sample] * news[:, None]
        sums.leading[self.label] = sums.leading[self.label] + self.add(along)
