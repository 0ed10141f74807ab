"""Counts for the pictures of a report: spreads of whole numbers, frequencies of labels, chances of owners.

Reads no files. Same numbers, same figures.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xpipe.report.figures import Bin, ChanceBin, LabelFigures, NamedCount, RankedCount, Spread

MOST_BINS = 24
TAIL = 0.995  # what lies above this share of the numbers goes into one last bin
MOST_NAMED = 20  # labels that are listed by name
CURVE_STEP = 1.12  # ratio of neighbouring ranks
CLASSES = (1, 2, 6, 21, 101, 1001, 10_001)  # the smallest number of rows of each class of labels
CHANCE_BINS = 10


def spread(counts: np.ndarray) -> Spread:
    """How whole numbers are spread. counts[n]: how many things have the number n."""
    counts = np.trim_zeros(np.asarray(counts, dtype=np.int64), "b")
    total = int(counts.sum())
    if not total:
        return Spread((), 0.0, 0.0, 0)
    sums, numbers = np.cumsum(counts), np.arange(len(counts))
    middle = [int(np.searchsorted(sums, place, side="right")) for place in ((total - 1) // 2, total // 2)]
    mean = float((counts * numbers).sum() / total)
    return Spread(tuple(_bins(counts, sums)), round(mean, 4), sum(middle) / 2, len(counts) - 1)


def _bins(counts: np.ndarray, sums: np.ndarray) -> list[Bin]:
    """At most about MOST_BINS bins of a round width. The last one has no end, where few numbers are far above."""
    first = int(np.flatnonzero(counts)[0])
    last = int(np.searchsorted(sums, TAIL * sums[-1]))
    step = _round_step((last - first + 1) / MOST_BINS)
    first -= first % step if step > 1 else 0
    starts = list(range(first, last + 1, step))
    found = [Bin(start, start + step - 1, int(counts[start : start + step].sum())) for start in starts]
    beyond = starts[-1] + step
    if beyond < len(counts):
        found.append(Bin(beyond, None, int(counts[beyond:].sum())))
    return found


def _round_step(least: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, ... that is not below `least`."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if factor * step >= least:
                return factor * step
        step *= 10


def label_figures(frequency: np.ndarray, names: Sequence[str] | None, counted: str) -> LabelFigures:
    """How often labels occur. frequency: one number per label. names: of all labels. counted: in what, for people."""
    falling = np.argsort(-frequency, kind="stable")
    used = int((frequency > 0).sum())
    ends = [*CLASSES[1:], None]
    classes = [
        Bin(low, None if end is None else end - 1, int(((frequency >= low) & (frequency < (end or np.inf))).sum()))
        for low, end in zip(CLASSES, ends, strict=True)
    ]
    while classes and not classes[-1].count:
        classes.pop()
    return LabelFigures(
        counted=counted,
        labels=len(frequency),
        unused=len(frequency) - used,
        classes=tuple(classes),
        curve=tuple(RankedCount(rank, int(frequency[falling[rank - 1]])) for rank in _ranks(used)),
        most=tuple(
            NamedCount(label, names[label] if names else "", int(frequency[label]))
            for label in falling[: min(MOST_NAMED, used)].tolist()
        ),
    )


def _ranks(last: int) -> list[int]:
    """Ranks from 1 to `last`, each about CURVE_STEP times the one before."""
    ranks, rank = [], 1
    while rank < last:
        ranks.append(rank)
        rank = max(rank + 1, int(rank * CURVE_STEP))
    return [*ranks, last] if last else []


class ChanceCounter:
    """Counts owners by their chance, one part of the rows after the other."""

    def __init__(self, low: float, high: float):
        """Begin with nothing. low, high: the range of the scores; 0 and 1 for chances."""
        self.edges = np.linspace(low, high, CHANCE_BINS + 1)
        self.pairs = np.zeros(CHANCE_BINS, dtype=np.int64)
        self.sums = np.zeros(CHANCE_BINS)
        self.right = np.zeros(CHANCE_BINS, dtype=np.int64)
        self.known = False

    def add(self, chances: np.ndarray, right: np.ndarray | None) -> None:
        """Count some owners. right: bool, which are true owners; None where truth is not known."""
        width = max(self.edges[-1] - self.edges[0], 1e-300)
        places = ((chances.astype(np.float64) - self.edges[0]) / width * CHANCE_BINS).astype(np.int64)
        places = np.clip(places, 0, CHANCE_BINS - 1)
        self.pairs += np.bincount(places, minlength=CHANCE_BINS)
        self.sums += np.bincount(places, weights=chances.astype(np.float64), minlength=CHANCE_BINS)
        if right is not None:
            self.known = True
            self.right += np.bincount(places[right], minlength=CHANCE_BINS)

    def bins(self) -> tuple[ChanceBin, ...]:
        """What was counted."""
        return tuple(
            ChanceBin(
                low=round(float(self.edges[place]), 6),
                high=round(float(self.edges[place + 1]), 6),
                pairs=int(self.pairs[place]),
                mean=round(float(self.sums[place] / max(self.pairs[place], 1)), 6),
                right=int(self.right[place]) if self.known else None,
            )
            for place in range(CHANCE_BINS)
        )
