"""Kernels that look for a lost label and for an owner that no group allows.

Holds no message: `ownership` says what was found.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from xpipe.ground.accelerate import jit


@jit
def find_lost(members, group_labels, owned, mark):
    """The first (group, label) whose group has samples, none of which owns the label; (-1, -1) where there is none.

    members: samples of each group; group_labels: labels of each group; owned: labels of each sample. mark: per label,
    -1 on entry.
    """
    group_starts, group_samples = members
    label_starts, labels = group_labels
    owned_starts, owned_labels = owned
    for group in range(len(group_starts) - 1):
        if group_starts[group] == group_starts[group + 1]:
            continue
        for p in range(label_starts[group], label_starts[group + 1]):
            mark[labels[p]] = group
        wanted = label_starts[group + 1] - label_starts[group]
        for at in range(group_starts[group], group_starts[group + 1]):
            if wanted == 0:
                break
            sample = group_samples[at]
            for p in range(owned_starts[sample], owned_starts[sample + 1]):
                if mark[owned_labels[p]] == group:
                    mark[owned_labels[p]] = -1
                    wanted -= 1
        if wanted > 0:
            for p in range(label_starts[group], label_starts[group + 1]):
                if mark[labels[p]] == group:
                    return group, np.int64(labels[p])
    return -1, np.int64(-1)


@jit
def find_stranger(sample_groups, group_labels, owned, mark):
    """The first (sample, label) that is owned although no group of the sample has the label; (-1, -1): there is none.

    sample_groups: groups of each sample; the others as in `find_lost`.
    """
    group_starts, groups = sample_groups
    label_starts, labels = group_labels
    owned_starts, owned_labels = owned
    for sample in range(len(owned_starts) - 1):
        p, stop = owned_starts[sample], owned_starts[sample + 1]
        if group_starts[sample + 1] == group_starts[sample] + 1:  # most samples: compare two sorted lists
            group = groups[group_starts[sample]]
            for at in range(label_starts[group], label_starts[group + 1]):
                if p == stop:
                    break
                p += owned_labels[p] == labels[at]
        if p == stop:
            continue
        for at in range(group_starts[sample], group_starts[sample + 1]):
            group = groups[at]
            for q in range(label_starts[group], label_starts[group + 1]):
                mark[labels[q]] = sample
        for q in range(p, stop):
            if mark[owned_labels[q]] != sample:
                return sample, np.int64(owned_labels[q])
    return -1, np.int64(-1)
