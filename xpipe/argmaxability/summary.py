"""What the verdicts on many label sets come to: counts, radii, and the sets to look at first.

Holds no printing: `display` shows it.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from xpipe.argmaxability.verdicts import ARGMAXABLE, UNARGMAXABLE, UNDECIDED, Verdicts

SIZES = (0, 1, 2, 3, 6, 11, 21, 51)  # where the classes of active labels begin
PERCENTILES = (5, 50, 95)


@dataclasses.dataclass(frozen=True)
class Line:
    """Sets with a number of active labels in a class; radii are lower bounds of the argmaxable ones."""

    labels: str
    sets: int
    argmaxable: int
    one_argmaxable: int
    undecided: int
    bounds_only: int  # not unargmaxable, and the radius is not known to 1e-6
    radii: tuple[float, ...] | None


def summarise(verdicts: Verdicts, sizes: np.ndarray) -> list[Line]:
    """A line a class of active labels, and the last for all of them; sizes: active labels a set."""
    lines = []
    ends = [*SIZES[1:], int(sizes.max(initial=0)) + 1]
    for begin, end in zip(SIZES, ends, strict=True):
        rows = np.flatnonzero((sizes >= begin) & (sizes < end))
        if len(rows):
            name = (
                f"{begin}" if end - begin == 1 else f"{begin} or more" if begin == SIZES[-1] else f"{begin}-{end - 1}"
            )
            lines.append(_line(name, verdicts, rows))
    lines.append(_line("all", verdicts, np.arange(len(verdicts))))
    return lines


def _line(name: str, verdicts: Verdicts, rows: np.ndarray) -> Line:
    codes, lower = verdicts.codes[rows], verdicts.radius_lower[rows]
    known = lower[codes == ARGMAXABLE]
    radii = tuple(float(value) for value in np.percentile(known, PERCENTILES)) if len(known) else None
    yes = verdicts.one_argmaxable[rows] == "yes"
    bounds_only = (codes != UNARGMAXABLE) & ~verdicts.exact[rows]
    return Line(
        name,
        len(rows),
        argmaxable=int((codes == ARGMAXABLE).sum()),
        one_argmaxable=int(yes.sum()),
        undecided=int((codes == UNDECIDED).sum()),
        bounds_only=int(bounds_only.sum()),
        radii=radii,
    )


def worst_sets(verdicts: Verdicts, indptr: np.ndarray, indices: np.ndarray, most: int) -> list[tuple[int, int]]:
    """(row, rows with the same set) of unargmaxable sets: the most frequent first, then those of fewest labels."""
    seen: dict[bytes, list[int]] = {}
    for row in np.flatnonzero(verdicts.codes == UNARGMAXABLE):
        key = indices[indptr[row] : indptr[row + 1]].tobytes()
        seen.setdefault(key, []).append(int(row))
    ranked = sorted(seen.values(), key=lambda rows: (-len(rows), indptr[rows[0] + 1] - indptr[rows[0]], rows[0]))
    return [(rows[0], len(rows)) for rows in ranked[:most]]
