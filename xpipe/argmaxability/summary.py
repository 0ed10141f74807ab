"""Summaries of the verdicts on many label sets: counts, radii, and the sets to look at first.

Holds no printing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from xpipe.argmaxability.verdicts import ARGMAXABLE, UNARGMAXABLE, UNDECIDED, Verdicts

SIZES = (0, 1, 2, 3, 6, 11, 21, 51)  # the smallest number of active labels of each class
PERCENTILES = (5, 50, 95)


@dataclasses.dataclass(frozen=True)
class Line:
    """Counts of the sets whose number of active labels is in one class, such as "3-5".

    radii: percentiles of the finite lower bounds of the argmaxable sets; None where there are none.
    """

    labels: str
    sets: int
    argmaxable: int
    one_argmaxable: int
    undecided: int
    bounds_only: int  # sets that are not unargmaxable and whose radius is not known to 1e-6
    radii: tuple[float, ...] | None


def summarise(verdicts: Verdicts, sizes: np.ndarray) -> list[Line]:
    """One line per class of active labels, then one for all sets. sizes: the number of active labels of each set."""
    lines = []
    ends = [*SIZES[1:], int(sizes.max(initial=0)) + 1]
    for begin, end in zip(SIZES, ends, strict=True):
        chosen = np.flatnonzero((sizes >= begin) & (sizes < end))
        if len(chosen):
            name = (
                f"{begin}" if end - begin == 1 else f"{begin} or more" if begin == SIZES[-1] else f"{begin}-{end - 1}"
            )
            lines.append(_line(name, verdicts, chosen))
    lines.append(_line("all", verdicts, np.arange(len(verdicts))))
    return lines


def _line(name: str, verdicts: Verdicts, chosen: np.ndarray) -> Line:
    """The line of the chosen sets."""
    codes, lower = verdicts.codes[chosen], verdicts.radius_lower[chosen]
    known = lower[(codes == ARGMAXABLE) & np.isfinite(lower)]  # infinite: sets that every input gives
    radii = tuple(float(value) for value in np.percentile(known, PERCENTILES)) if len(known) else None
    yes = verdicts.one_argmaxable[chosen] == "yes"
    bounds_only = (codes != UNARGMAXABLE) & ~verdicts.exact[chosen]
    return Line(
        name,
        len(chosen),
        argmaxable=int((codes == ARGMAXABLE).sum()),
        one_argmaxable=int(yes.sum()),
        undecided=int((codes == UNDECIDED).sum()),
        bounds_only=int(bounds_only.sum()),
        radii=radii,
    )


def in_the_way(conflicts: Sequence[tuple[np.ndarray, int]]) -> list[tuple[int, int]]:
    """(label, number of impossible rows that it is in the way of), the most first.

    conflicts: for each impossible set, the labels that it can never all be ahead of, and how many rows have the set.
    """
    counts: dict[int, int] = {}
    for labels, rows in conflicts:
        for label in labels.tolist():
            counts[label] = counts.get(label, 0) + rows
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def worst_sets(verdicts: Verdicts, indptr: np.ndarray, indices: np.ndarray, most: int) -> list[tuple[int, int]]:
    """(first row, number of rows) of each unargmaxable set: the most frequent first, then those with fewest labels."""
    seen: dict[bytes, list[int]] = {}
    for row in np.flatnonzero(verdicts.codes == UNARGMAXABLE):
        key = indices[indptr[row] : indptr[row + 1]].tobytes()
        seen.setdefault(key, []).append(int(row))
    ranked = sorted(seen.values(), key=lambda rows: (-len(rows), indptr[rows[0] + 1] - indptr[rows[0]], rows[0]))
    return [(rows[0], len(rows)) for rows in ranked[:most]]
