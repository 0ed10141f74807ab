"""Counts of a report against slow, obviously right ones."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from xpipe.report.counting import ChanceCounter, label_figures, spread


@given(st.lists(st.integers(0, 400), min_size=1, max_size=60))
def test_a_spread_counts_every_number_once(numbers):
    found = spread(np.bincount(numbers))
    assert found.mean == round(float(np.mean(numbers)), 4)
    assert found.median == np.median(numbers)
    assert found.most == max(numbers)
    assert sum(each.count for each in found.bins) == len(numbers)
    for each in found.bins:
        inside = [
            number for number in numbers if each.low <= number <= (max(numbers) if each.high is None else each.high)
        ]
        assert each.count == len(inside)
    assert len(found.bins) <= 27


def test_few_numbers_have_bins_of_their_own_and_far_ones_share_the_last():
    assert [each.in_words() for each in spread(np.array([0, 3, 0, 2])).bins] == ["1", "2", "3"]
    lengths = np.zeros(5001, dtype=int)
    lengths[10:14], lengths[5000] = 1000, 1
    assert [each.in_words() for each in spread(lengths).bins] == ["10", "11", "12", "13", "14+"]
    assert spread(np.zeros(0)).bins == ()


def test_ranges_are_short_where_there_is_little_room():
    wide = np.zeros(1_000_000, dtype=int)
    wide[[0, 999_999]] = 1
    assert spread(wide).bins[-1].in_short().endswith("k")
    assert spread(np.array([0, 1])).bins[0].in_short() == "1"


def test_label_frequencies_rank_count_and_name():
    frequency = np.array([3, 0, 100, 1, 1])
    found = label_figures(frequency, ["a", "b", "c", "d", "e"], "training rows")
    assert (found.labels, found.unused) == (5, 1)
    assert [(each.label, each.name, each.count) for each in found.most] == [
        (2, "c", 100), (0, "a", 3), (3, "d", 1), (4, "e", 1),
    ]  # fmt: skip
    assert [(each.rank, each.count) for each in found.curve] == [(1, 100), (2, 3), (3, 1), (4, 1)]
    assert {each.in_words(): each.count for each in found.classes} == {"1": 2, "2–5": 1, "6–20": 0, "21–100": 1}


def test_a_curve_of_many_labels_is_short_and_ends_with_the_last():
    found = label_figures(np.arange(100_000, 0, -1), None, "groups")
    assert len(found.curve) < 120
    assert found.curve[-1].rank == 100_000
    assert found.most[0].name == ""


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=40), st.integers(0, 40))
def test_chances_are_counted_whatever_the_parts(pairs, cut):
    counter = ChanceCounter(0.0, 1.0)
    for part in (pairs[:cut], pairs[cut:]):
        counter.add(np.array([chance for chance, _ in part]), np.array([right for _, right in part], dtype=bool))
    for each in counter.bins():
        place = round(each.low * 10)
        inside = [(chance, right) for chance, right in pairs if min(int(chance * 10), 9) == place]
        assert each.pairs == len(inside)
        assert each.right == sum(right for _, right in inside)
        if inside:
            assert abs(each.mean - np.mean([chance for chance, _ in inside])) < 1e-5
