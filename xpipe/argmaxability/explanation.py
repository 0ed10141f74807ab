"""Why a label set cannot be predicted: a few labels whose signs exclude each other.

Holds no search of its own: it starts from the multipliers of a verdict, and calls `verify` on subsets of the labels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from xpipe.argmaxability.certificate import point_bounds
from xpipe.argmaxability.options import MODE, Mode
from xpipe.argmaxability.output_layer import check_weights, row_norms
from xpipe.argmaxability.separation_conflict import shrink_conflict
from xpipe.argmaxability.sets import check_sets
from xpipe.argmaxability.stored_rows import StoredRows, check_bias
from xpipe.argmaxability.verdicts import UNARGMAXABLE, Verdicts
from xpipe.argmaxability.verification import verify
from xpipe.errors import ConfigError, printable

SHOWN = 12  # labels named in the sentence
LONGEST_NAME = 200  # characters of a label's name in the sentence


@dataclasses.dataclass(frozen=True)
class Explanation:
    """Labels that cannot have these signs together.

    Attributes
    ----------
    labels : ndarray of int64
        The labels, ascending.
    positive : ndarray of bool
        Whether the set has each of these labels.
    minimal : bool
        Whether leaving out any one label is proved to end the conflict.
    names : tuple of str, or None
        The names of the labels, where they are known.
    mode : {"sign", "topk", "argmax"}
        In mode sign these signs exclude each other. In the other modes the labels of the set cannot all score above
        all others of the conflict.
    noun : str
        What a row stands for: "label", "document", "token".

    Examples
    --------
    >>> import numpy as np
    >>> from xpipe.argmaxability import Explanation
    >>> print(Explanation(np.array([3, 8]), np.array([False, True]), minimal=True))
    these 2 labels cannot have these signs together: +8, -3
    >>> positive = np.array([False, True, False])
    >>> print(Explanation(np.array([3, 8, 9]), positive, minimal=True, mode="topk", noun="document"))
    document 8 can never be ahead of all of these 2: 3, 9
    """

    labels: np.ndarray
    positive: np.ndarray
    minimal: bool
    names: tuple[str, ...] | None = None
    mode: Mode = MODE
    noun: str = "label"

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self, shown: int = SHOWN) -> str:
        """One sentence that names at most `shown` labels, those of the set first."""
        if self.mode != "sign":
            return self._never_ahead(shown)
        order = np.argsort(~self.positive, kind="stable")
        texts = [("+" if self.positive[i] else "-") + self._name(i) for i in order[:shown]]
        if len(order) > shown:
            texts.append(f"and {len(order) - shown} more")
        if len(order) == 1:
            return f"this label cannot have this sign: {texts[0]}"
        return f"these {len(order)} labels cannot have these signs together: {', '.join(texts)}"

    def _never_ahead(self, shown: int) -> str:
        """The sentence of modes topk and argmax."""
        ahead, behind = np.flatnonzero(self.positive), np.flatnonzero(~self.positive)
        room = max(shown - len(ahead), 1)
        others = ", ".join(self._name(i) for i in behind[:room])
        others += f" and {len(behind) - room} more" if len(behind) > room else ""
        if len(ahead) == 1:
            name = self._name(ahead[0])
            name = name if self.names else f"{self.noun} {name}"
            if len(behind) == 1:
                return f"{name} can never be ahead of {others}"
            return f"{name} can never be ahead of all of these {len(behind)}: {others}"
        own = ", ".join(self._name(i) for i in ahead[:shown])
        own += f" and {len(ahead) - shown} more" if len(ahead) > shown else ""
        which = "this one" if len(behind) == 1 else f"all of these {len(behind)}"
        return f"these {len(ahead)} {self.noun}s can never all be ahead of {which}: {own}; over {others}"

    def _name(self, place: int) -> str:
        return printable(self.names[place], LONGEST_NAME) if self.names else str(self.labels[place])


def explain(
    W: Any,
    Y: Any,
    verdicts: Verdicts,
    row: int,
    bias: Any = None,
    names: Sequence[str] | None = None,
    *,
    noun: str = "label",
) -> Explanation:
    """Find a smallest conflict of labels that makes a label set unargmaxable.

    The question is that of the verdicts: labels whose signs exclude each other in mode sign; in modes topk and argmax
    labels of the set, and others that they can never all be ahead of.

    Parameters
    ----------
    W : array_like of float, shape (n_labels, d)
        The weights.
    Y : scipy sparse matrix, shape (n_sets, n_labels), or None
        The label sets of the verdicts. None in mode argmax: every label by itself.
    verdicts : Verdicts
        From `verify(W, Y, bias)`.
    row : int
        The row of Y to explain.
    bias : array_like of float, shape (n_labels,), optional
        The biases, where the layer has them.
    names : sequence of str, optional
        One name per label.
    noun : str, default "label"
        What to call a row in modes topk and argmax.

    Returns
    -------
    Explanation
        At most d + 1 labels, or d + 2 in modes topk and argmax, none of which can be left out where `minimal` is True.

    Raises
    ------
    ConfigError
        If the set is not unargmaxable.
    DataError
        If W, Y or bias is wrong.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.argmaxability import explain, verify
    >>> W, Y = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], sp.csr_matrix([[1, 1, 1]])
    >>> print(explain(W, Y, verify(W, Y), 0, names=["above", "below", "other"]))
    these 2 labels cannot have these signs together: +above, +below
    """
    if verdicts.mode != "sign":
        return _explain_order(W, Y, verdicts, row, bias, names, noun)
    W, bias = check_weights(W, bias)
    indptr, indices = check_sets(Y, len(W))
    if verdicts.codes[row] != UNARGMAXABLE:
        raise ConfigError(f"label set {row} is {verdicts.status[row]}", why="only an unargmaxable set has a conflict")
    own = indices[indptr[row] : indptr[row + 1]]
    labels, minimal = _shrink_conflict(W, bias, own, *_start_conflict(verdicts, row), verdicts)
    labels = np.sort(labels)
    return Explanation(
        labels, np.isin(labels, own), minimal, tuple(names[label] for label in labels) if names is not None else None
    )


def _explain_order(
    W: Any, Y: Any, verdicts: Verdicts, row: int, bias: Any, names: Sequence[str] | None, noun: str
) -> Explanation:
    """`explain` in modes topk and argmax. Reads the rows of the conflict alone."""
    rows = W if isinstance(W, StoredRows) else StoredRows(np.asarray(W))
    if verdicts.codes[row] != UNARGMAXABLE:
        raise ConfigError(f"label set {row} is {verdicts.status[row]}", why="only an unargmaxable set has a conflict")
    if Y is None:
        own = np.array([row])
    else:
        indptr, indices = check_sets(Y, len(rows))
        own = indices[indptr[row] : indptr[row + 1]]
    labels, multipliers = _start_conflict(verdicts, row)
    shift = check_bias(bias, len(rows))
    places, minimal = shrink_conflict(
        rows.take(labels), None if shift is None else shift[labels], np.isin(labels, own), multipliers, verdicts
    )
    found = np.sort(labels[places])
    named = tuple(names[label] for label in found) if names is not None else None
    return Explanation(found, np.isin(found, own), minimal, named, verdicts.mode, noun)


def _start_conflict(verdicts: Verdicts, row: int) -> tuple[np.ndarray, np.ndarray]:
    """(labels, multipliers) of the verdict, the smallest multiplier first."""
    labels, multipliers = verdicts.multipliers_of(row)
    labels, multipliers = labels[multipliers > 0].astype(np.int64), multipliers[multipliers > 0]
    order = np.argsort(multipliers, kind="stable")
    return labels[order], multipliers[order]


def _shrink_conflict(
    W: np.ndarray,
    bias: np.ndarray | None,
    own: np.ndarray,
    labels: np.ndarray,
    multipliers: np.ndarray,
    verdicts: Verdicts,
) -> tuple[np.ndarray, bool]:
    """(labels of a smaller conflict, whether it is minimal). own: the labels of the set."""
    needed: set[int] = set()  # labels without which the rest is proved to be argmaxable
    asked: set[int] = set()
    while True:
        signs = np.where(np.isin(labels, own), 1.0, -1.0)
        if bias is None and verdicts.inputs == "any":
            needed |= set(labels[_needed_labels(W[labels], signs, multipliers, verdicts)].tolist())
        left = [label for label in labels.tolist() if label not in needed and label not in asked]
        if not left or len(labels) == 1:
            break
        asked.add(left[0])
        rest = labels[labels != left[0]]
        answer = _ask(W, bias, rest, np.isin(rest, own), verdicts)
        if answer.argmaxable[0]:
            needed.add(left[0])
        elif answer.codes[0] == UNARGMAXABLE:  # a conflict without this label, perhaps with far fewer labels
            places, multipliers = answer.multipliers_of(0)
            labels = rest[places]
            asked &= set(labels.tolist())
    return labels, len(labels) == 1 or needed >= set(labels.tolist())


def _needed_labels(rows: np.ndarray, signs: np.ndarray, multipliers: np.ndarray, verdicts: Verdicts) -> np.ndarray:
    """Whether leaving out each label is proved to end the conflict, by a point that gives the others a margin of 1."""
    m = len(rows)
    if m == 1:
        return np.zeros(1, dtype=bool)
    signed = signs[:, None] * rows
    wanted = np.ones((m, m))  # one column per label left out; its own margin follows from the multipliers
    np.fill_diagonal(wanted, -(multipliers.sum() - multipliers) / multipliers)
    points = (np.linalg.pinv(signed) @ wanted).T
    points *= verdicts.box / np.abs(points).max(axis=1, initial=1e-300, keepdims=True)
    points = np.clip(points, -verdicts.box, verdicts.box)
    norms = row_norms(signed)
    seen = np.zeros(m, dtype=bool)
    for place in range(m):
        rest = np.arange(m) != place
        one_set = np.array([0, m - 1])  # all signed rows must have a positive score
        lower = point_bounds(
            signed[rest], None, norms[rest], one_set, np.arange(m - 1), points[place : place + 1], verdicts.box
        )
        seen[place] = lower[0] > verdicts.eps
    return seen


def _ask(
    W: np.ndarray, bias: np.ndarray | None, labels: np.ndarray, positive: np.ndarray, verdicts: Verdicts
) -> Verdicts:
    """The verdict on the signs of these labels alone."""
    own = sp.csr_matrix(positive[None, :].astype(np.float32))
    part = None if bias is None else bias[labels]
    return verify(W[labels], own, part, inputs=verdicts.inputs, box=verdicts.box, eps=verdicts.eps, threads=1)
