"""Easy and doubtful groups: those whose owners are most and least certain, with their members and labels.

Reads no files and no texts: it says which rows are wanted, and who owns what. Y1 = membership, Y2 = group_labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from xpipe.ground.sparse import Triple
from xpipe.report.figures import GroupExample, Member, OwnedLabel, Owner

MOST_MEMBERS = 6  # of a group that are shown, owners first
MOST_LABELS = 12
MOST_OWNERS = 4  # of one label


class GroupScores:
    """The chance of the likeliest owner of every label of every group, found one part of the rows after the other."""

    def __init__(self, Y1: sp.csr_matrix, Y2: sp.csr_matrix):
        """Begin with nothing. Y1: samples x groups; Y2: groups x labels."""
        self.Y1, self.Y2 = Y1, Y2
        groups = np.repeat(np.arange(Y2.shape[0], dtype=np.int64), np.diff(Y2.indptr))
        self.places = groups * Y2.shape[1] + Y2.indices  # ascending
        self.best = np.zeros(len(self.places), dtype=np.float32)

    def add(self, first_row: int, owners: Triple) -> None:
        """Count the owners of some rows. first_row: the place of the first one among all rows."""
        rows = np.repeat(np.arange(owners.n_rows), np.diff(owners.indptr)) + first_row
        n_groups = np.diff(self.Y1.indptr)[rows]
        pair = np.repeat(np.arange(len(rows)), n_groups)
        offsets = np.arange(len(pair)) - np.repeat(np.cumsum(n_groups) - n_groups, n_groups)
        groups = self.Y1.indices[self.Y1.indptr[rows[pair]] + offsets].astype(np.int64)
        keys = groups * self.Y2.shape[1] + owners.indices[pair]
        at = np.minimum(np.searchsorted(self.places, keys), max(len(self.places) - 1, 0))
        found = self.places[at] == keys if len(self.places) else np.zeros(len(keys), dtype=bool)
        np.maximum.at(self.best, at[found], owners.values[pair[found]])

    def extremes(self, count: int) -> tuple[list[int], list[int]]:
        """(the most certain groups, the least certain ones), each beginning with the extreme one.

        Groups of a single member are left out: there is nothing to decide.
        """
        means, sizes = self.means(), np.asarray(self.Y1.getnnz(axis=0))
        eligible = np.flatnonzero((sizes > 1) & (np.diff(self.Y2.indptr) > 0))
        rising = eligible[np.argsort(means[eligible], kind="stable")]
        doubtful = rising[:count].tolist()
        several = np.diff(self.Y2.indptr)[rising] > 1  # a single label says little
        easy = [group for group in rising[several][::-1].tolist() if group not in doubtful]
        return easy[:count], doubtful

    def means(self) -> np.ndarray:
        """Per group the mean, over its labels, of the chance of the likeliest owner; 0 where it has no labels."""
        n_labels = np.diff(self.Y2.indptr)
        sums = np.concatenate([[0.0], np.cumsum(self.best.astype(np.float64))])
        totals = sums[self.Y2.indptr[1:]] - sums[self.Y2.indptr[:-1]]
        means: np.ndarray = totals / np.maximum(n_labels, 1)
        return means


@dataclass(frozen=True)
class Words:
    """What is said of rows: their numbers in the input, ids and texts, each by the place of the row."""

    rows: dict[int, int]
    ids: dict[int, str]
    texts: dict[int, str]


def members_of(Y1: sp.csr_matrix, group: int) -> np.ndarray:
    """The places of the rows of a group, ascending."""
    entries = np.flatnonzero(Y1.indices == group)
    rows: np.ndarray = np.searchsorted(Y1.indptr, entries, side="right") - 1
    return rows


def example(
    group: int,
    scores: GroupScores,
    owners: sp.csr_matrix,
    truth: sp.csr_matrix | None,
    places: np.ndarray,
    words: Words,
    names: tuple[list[str] | None, list[str] | None],
) -> GroupExample:
    """A group with its members and labels.

    owners, truth: chances and true labels of its members, which are at `places`. names: of groups and of labels.
    """
    group_names, label_names = names
    labels = scores.Y2.indices[scores.Y2.indptr[group] : scores.Y2.indptr[group + 1]]
    best = scores.best[scores.Y2.indptr[group] : scores.Y2.indptr[group + 1]]
    shown = labels[np.argsort(best, kind="stable")][:MOST_LABELS]
    owned = [_owned(int(label), owners, truth, places, words, label_names) for label in shown]
    first = np.argsort(-np.diff(owners.indptr), kind="stable")[:MOST_MEMBERS]  # those that own most
    kept = places[np.sort(first)].tolist()
    return GroupExample(
        group=group,
        name=group_names[group] if group_names else "",
        chance=round(float(best.astype(np.float64).mean()), 6) if len(best) else 0.0,
        members=tuple(Member(words.rows[at], words.ids.get(at, ""), words.texts.get(at, "")) for at in kept),
        more_members=len(places) - len(kept),
        labels=tuple(owned),
        more_labels=len(labels) - len(shown),
    )


def _owned(
    label: int,
    owners: sp.csr_matrix,
    truth: sp.csr_matrix | None,
    places: np.ndarray,
    words: Words,
    names: list[str] | None,
) -> OwnedLabel:
    """A label of a group with its owners, the likeliest first."""
    column = np.asarray(owners[:, [label]].todense()).ravel()
    have = np.flatnonzero(column > 0)
    have = have[np.argsort(-column[have], kind="stable")]
    true = None if truth is None else np.asarray(truth[:, [label]].todense()).ravel() > 0
    listed = tuple(
        Owner(words.rows[int(places[at])], round(float(column[at]), 6), None if true is None else bool(true[at]))
        for at in have[:MOST_OWNERS]
    )
    return OwnedLabel(label, names[label] if names else "", listed, len(have) - len(listed))
