"""Why a label set cannot be predicted: a few labels whose signs exclude each other.

Holds no search of its own: it starts from the multipliers of a verdict, and asks `verify` what it cannot see itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from xpipe.argmaxability.certificate import point_bounds, row_norms
from xpipe.argmaxability.head import check_sets, check_weights
from xpipe.argmaxability.verdicts import UNARGMAXABLE, Verdicts
from xpipe.argmaxability.verification import verify
from xpipe.errors import ConfigError, printable

SHOWN = 12  # labels named in the sentence
LONGEST_NAME = 200  # characters of a label's name in it


@dataclasses.dataclass(frozen=True)
class Explanation:
    """Labels that cannot have these signs together. minimal: leaving any one out is proved to end the conflict."""

    labels: np.ndarray  # int64, ascending
    positive: np.ndarray  # bool, whether the set has the label
    minimal: bool
    names: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self, shown: int = SHOWN) -> str:
        """One sentence that names the labels, the ones in the set first."""
        order = np.argsort(~self.positive, kind="stable")
        texts = [("+" if self.positive[i] else "-") + self._name(i) for i in order[:shown]]
        if len(order) > shown:
            texts.append(f"and {len(order) - shown} more")
        if len(order) == 1:
            return f"this label cannot have this sign: {texts[0]}"
        return f"these {len(order)} labels cannot have these signs together: {', '.join(texts)}"

    def _name(self, place: int) -> str:
        return printable(self.names[place], LONGEST_NAME) if self.names else str(self.labels[place])


def explain(
    W: Any, Y: Any, verdicts: Verdicts, row: int, bias: Any = None, names: Sequence[str] | None = None
) -> Explanation:
    """A conflict behind the unargmaxable set `row` of Y: no label of it can be left out, at most d + 1 of them.

    names: one a label. Raises ConfigError for a set that is not unargmaxable.
    """
    W, bias = check_weights(W, bias)
    indptr, indices = check_sets(Y, len(W))
    if verdicts.codes[row] != UNARGMAXABLE:
        raise ConfigError(f"label set {row} is {verdicts.status[row]}", why="only what is unargmaxable has a conflict")
    own = indices[indptr[row] : indptr[row + 1]]
    labels, multipliers = verdicts.multipliers_of(row)
    labels, multipliers = labels[multipliers > 0].astype(np.int64), multipliers[multipliers > 0]
    order = np.argsort(multipliers, kind="stable")  # what weighs least is tried first
    labels, multipliers = labels[order], multipliers[order]
    needed: set[int] = set()  # labels without which the rest is proved to be argmaxable
    asked: set[int] = set()
    while True:
        signs = np.where(np.isin(labels, own), 1.0, -1.0)
        if bias is None:
            needed |= set(labels[_needed_labels(W[labels], signs, multipliers, verdicts)].tolist())
        left = [label for label in labels.tolist() if label not in needed and label not in asked]
        if not left or len(labels) == 1:
            break
        asked.add(left[0])
        rest = labels[labels != left[0]]
        answer = _ask(W, bias, rest, np.isin(rest, own), verdicts)
        if answer.argmaxable[0]:
            needed.add(left[0])
        elif answer.codes[0] == UNARGMAXABLE:  # a conflict without it, perhaps of far fewer labels
            places, multipliers = answer.multipliers_of(0)
            labels = rest[places]
            asked &= set(labels.tolist())
    minimal = len(labels) == 1 or needed >= set(labels.tolist())
    labels = np.sort(labels)
    return Explanation(
        labels, np.isin(labels, own), minimal, tuple(names[label] for label in labels) if names is not None else None
    )


def _needed_labels(rows: np.ndarray, signs: np.ndarray, multipliers: np.ndarray, verdicts: Verdicts) -> np.ndarray:
    """Whether leaving out each label is seen to end the conflict: the others get a margin of 1, by least squares."""
    m = len(rows)
    if m == 1:
        return np.zeros(1, dtype=bool)
    signed = signs[:, None] * rows
    wanted = np.ones((m, m))  # a column for each label left out; its own margin is what the multipliers leave it
    np.fill_diagonal(wanted, -(multipliers.sum() - multipliers) / multipliers)
    points = (np.linalg.pinv(signed) @ wanted).T
    points *= verdicts.box / np.abs(points).max(axis=1, initial=1e-300, keepdims=True)
    points = np.clip(points, -verdicts.box, verdicts.box)
    norms = row_norms(signed)
    seen = np.zeros(m, dtype=bool)
    for place in range(m):
        rest = np.arange(m) != place
        all_of_them = np.array([0, m - 1])
        lower = point_bounds(
            signed[rest], None, norms[rest], all_of_them, np.arange(m - 1), points[place : place + 1], verdicts.box
        )
        seen[place] = lower[0] > verdicts.eps
    return seen


def _ask(
    W: np.ndarray, bias: np.ndarray | None, labels: np.ndarray, positive: np.ndarray, verdicts: Verdicts
) -> Verdicts:
    """The verdict on the signs of these labels alone."""
    own = sp.csr_matrix(positive[None, :].astype(np.float32))
    part = None if bias is None else bias[labels]
    return verify(W[labels], own, part, box=verdicts.box, eps=verdicts.eps, threads=1)
