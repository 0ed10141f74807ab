"""Why a set can never be on top: a few rows of the set, and a few others that they cannot all be ahead of.

Holds no search of its own: it starts from the multipliers of a verdict, and calls `verify` on subsets of their labels.
The largest norm among fewer rows is not larger. So rows that are in conflict by themselves prove the verdict.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from xpipe.argmaxability.separation_bounds import point_bounds
from xpipe.argmaxability.stored_rows import StoredRows
from xpipe.argmaxability.verdicts import UNARGMAXABLE, Verdicts
from xpipe.argmaxability.verification import verify

MOST_ASKED = 48  # labels of a conflict that are asked about one by one


def shrink_conflict(
    rows: np.ndarray, bias: np.ndarray | None, positive: np.ndarray, multipliers: np.ndarray, verdicts: Verdicts
) -> tuple[np.ndarray, bool]:
    """(places of a smaller conflict, whether it is minimal).

    rows, bias, positive (bool), multipliers: of the labels of a conflict, the smallest multiplier first.
    """
    places = np.arange(len(rows))
    needed: set[int] = set()  # places without which the rest is proved to be possible
    asked: set[int] = set()
    while True:
        if bias is None and verdicts.inputs == "any":
            seen = _needed_rows(rows[places], positive[places], multipliers, verdicts)
            needed |= set(places[seen].tolist())
        left = [place for place in places.tolist() if place not in needed and place not in asked]
        if not left or len(asked) >= MOST_ASKED:
            break
        asked.add(left[0])
        rest = places[places != left[0]]
        answer = _ask(rows[rest], None if bias is None else bias[rest], positive[rest], verdicts)
        if answer.argmaxable[0]:
            needed.add(left[0])
        elif answer.codes[0] == UNARGMAXABLE:  # a conflict without this row, perhaps with far fewer rows
            chosen, multipliers = answer.multipliers_of(0)
            places, multipliers = rest[chosen[multipliers > 0]], multipliers[multipliers > 0]
            asked &= set(places.tolist())
    return places, needed >= set(places.tolist())


def _needed_rows(rows: np.ndarray, positive: np.ndarray, multipliers: np.ndarray, verdicts: Verdicts) -> np.ndarray:
    """Whether leaving out each row is proved to end the conflict, by a point that gives the others a margin of 1."""
    m = len(rows)
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    largest = float(norms.max()) or 1.0
    signs = np.where(positive, 1.0, -1.0)[:, None]
    lifted = signs * np.column_stack([(rows - rows[positive].mean(axis=0)) / largest, np.full(m, -1.0)])
    wanted = np.ones((m, m))  # one column per row left out; its own margin follows from the multipliers
    np.fill_diagonal(wanted, -(multipliers.sum() - multipliers) / multipliers)
    points = (np.linalg.pinv(lifted) @ wanted).T[:, :-1]
    points *= verdicts.box / np.abs(points).max(axis=1, initial=1e-300, keepdims=True)
    points = np.clip(points, -verdicts.box, verdicts.box)
    seen = np.zeros(m, dtype=bool)
    for place in range(m):
        rest = np.arange(m) != place
        own = np.flatnonzero(positive[rest])
        lower = point_bounds(
            StoredRows(rows[rest]), None, largest, np.array([0, len(own)]), own, points[place : place + 1],
            verdicts.box, -1.0,
        )  # fmt: skip
        seen[place] = lower[0] > verdicts.eps
    return seen


def _ask(rows: np.ndarray, bias: np.ndarray | None, positive: np.ndarray, verdicts: Verdicts) -> Verdicts:
    """The verdict on these rows alone."""
    own = sp.csr_matrix(positive[None, :].astype(np.float32))
    return verify(rows, own, bias, mode="topk", inputs=verdicts.inputs, box=verdicts.box, eps=verdicts.eps, threads=1)
