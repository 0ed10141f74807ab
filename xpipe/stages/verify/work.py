"""Label sets and heads at a worker: sets are made distinct once, heads checked once, then some sets verified at a time.

Knows nothing of Dask; the verdicts are `argmaxability`. What they come to is in `report`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe import argmaxability
from xpipe.argmaxability import Head, Verdicts, distinct_sets, find_dft_k, verify_chunk
from xpipe.argmaxability.layer import NONE, Layer, read_layer
from xpipe.argmaxability.verdicts import write_verdicts
from xpipe.argmaxability.weights import tensor_names
from xpipe.engine.messages import Finished, Unit, entry_of_file
from xpipe.formats.parquet import read_about, read_split_labels
from xpipe.ground import files
from xpipe.ground.sparse import to_matrix
from xpipe.stages.arrays import read_arrays, write_arrays
from xpipe.stages.matrices import open_matrix
from xpipe.stages.verify.messages import (
    Exactness,
    HeadSource,
    HeadToState,
    LabelsAsRead,
    SetCounts,
    SetRange,
    SplitToVerify,
    StatedHead,
)

SETS = "sets/sets.npz"


class Sets(NamedTuple):
    """Each label set once, and which of them every row of the split is."""

    distinct: sp.csr_matrix
    member: np.ndarray


def find_sets(folder: str, unit: Unit, shared: SplitToVerify) -> Finished[SetCounts]:
    """The distinct label sets of the split, in the numbers of heads/, or as read where weights are given."""
    unseen = 0
    if isinstance(shared.labels, LabelsAsRead):
        stored = open_matrix(shared.labels.labels, shared.split)
        Y = to_matrix(stored.load(), stored.n_columns)
    else:
        dataset = shared.labels.dataset
        Y = read_split_labels(dataset, shared.split)
        unseen = read_about(dataset)["filtered"]["held_out_occurrences_of_these"].get(shared.split, 0)
    Y = sp.csr_matrix((np.ones(len(Y.indices), np.float32), Y.indices, Y.indptr), Y.shape)  # a score may be 0
    sets, member = distinct_sets(Y, Y.shape[1])
    arrays = {"indptr": sets.indptr, "indices": sets.indices, "member": member, "n_labels": np.array(Y.shape[1])}
    counts = SetCounts(Y.shape[0], sets.shape[0], Y.shape[1], unseen)
    return Finished((write_arrays(folder, SETS, arrays),), counts)


@lru_cache(maxsize=1)
def read_sets(folder: str) -> Sets:
    arrays = read_arrays(folder, SETS)
    shape = (len(arrays["indptr"]) - 1, int(arrays["n_labels"]))
    ones = np.ones(len(arrays["indices"]), np.float32)
    return Sets(sp.csr_matrix((ones, arrays["indices"], arrays["indptr"]), shape), arrays["member"])


def state_head(folder: str, unit: HeadToState, shared: None) -> Finished[StatedHead]:
    """A head's weights, checked, where every worker finds them; gives its size, and k where it begins with a DFT."""
    source = unit.source
    given = source.layer is None
    W, bias, told = _read_weights(source)
    has_bias = bias is not None
    arrays = {"W": W} if bias is None else {"W": W, "bias": bias}
    chosen_here = given and source.bias in (None, NONE) and source.bias_key is None
    told = told if chosen_here else ""  # what was asked for needs no telling, and names of files are in no output
    k = find_dft_k(W) if (given or source.layer == "dft") and not has_bias else None
    stated = StatedHead(source.name, source.layer, len(W), W.shape[1], has_bias, told, k or None)
    return Finished((write_arrays(folder, _weights_path(source.name), arrays),), stated)


def _read_weights(source: HeadSource) -> Layer:
    if source.layer is None or source.bias_key in tensor_names(source.path):
        return read_layer(source.path, source.key, source.bias, source.bias_key)
    return read_layer(source.path, source.key, NONE)


def _weights_path(head: str) -> str:
    return f"heads/{head}.npz"


@lru_cache(maxsize=1)
def read_head(folder: str, head: str) -> Head:
    """The head of this name. A process keeps it: it verifies many chunks of sets with it."""
    arrays = read_arrays(folder, _weights_path(head))
    return argmaxability.state_head(arrays["W"], arrays.get("bias"))


def verify_sets(folder: str, unit: SetRange, shared: Exactness) -> Finished[None]:
    """Verdicts on the distinct sets of one unit, as a Parquet part."""
    params = shared.params
    sets = read_sets(folder).distinct[unit.first : unit.first + unit.size]
    verdicts: Verdicts = verify_chunk(
        read_head(folder, unit.head),
        sets,
        params.radius,
        eps=params.eps,
        box=params.box,
        threads=1,
        backend=shared.backend,
    )
    path = f"parts/{unit.name}.parquet"
    write_verdicts(files.join(folder, path), verdicts, sets.indptr, sets.indices)
    return Finished((entry_of_file(folder, path),), None)
