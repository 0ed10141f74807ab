"""What a worker does in stage verify: it finds the distinct label sets, checks heads, and verifies some sets at a time.

Knows nothing of Dask, and holds no proofs: those are in `argmaxability`. Summaries of the verdicts are in `report`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.argmaxability import (
    LiftedLayer,
    OutputLayer,
    StoredRows,
    distinct_sets,
    find_dft_k,
    prepare_layer,
    prepare_rows,
    verify_chunk,
)
from xpipe.argmaxability.layer_files import StoredLayer, open_layer, read_layer
from xpipe.argmaxability.options import MODE, NO_BIAS
from xpipe.argmaxability.verdicts import write_verdicts
from xpipe.argmaxability.weights import tensor_names
from xpipe.engine.messages import Finished, Unit, entry_of_file
from xpipe.formats.parquet import read_about, read_split_labels
from xpipe.ground import files
from xpipe.ground.npy_header import read_npy
from xpipe.ground.sparse import to_matrix
from xpipe.ground.sparse_rows import matrix_with_ones
from xpipe.stages.arrays import read_arrays, write_arrays
from xpipe.stages.matrices import open_matrix
from xpipe.stages.verify.messages import (
    Exactness,
    HeadSource,
    HeadToPrepare,
    LabelsAsRead,
    PreparedHead,
    SetCounts,
    SetRange,
    SplitToVerify,
)

SETS = "sets/sets.npz"


class Sets(NamedTuple):
    """Each label set once, and the set of each row of the split."""

    distinct: sp.csr_matrix
    member: np.ndarray


def find_sets(folder: str, unit: Unit, shared: SplitToVerify) -> Finished[SetCounts]:
    """Write the distinct label sets of the split, and count them."""
    unseen = 0
    if isinstance(shared.labels, LabelsAsRead):
        stored = open_matrix(shared.labels.labels, shared.split)
        Y = to_matrix(stored.load(), stored.n_columns)
    else:
        dataset = shared.labels.dataset
        Y = read_split_labels(dataset, shared.split)
        unseen = read_about(dataset)["filtered"]["held_out_occurrences_of_these"].get(shared.split, 0)
    # a score may be 0
    Y = sp.identity(Y.shape[1], dtype=np.float32, format="csr") if shared.every_label else matrix_with_ones(Y)
    sets, member = distinct_sets(Y, Y.shape[1])
    arrays = {"indptr": sets.indptr, "indices": sets.indices, "member": member, "n_labels": np.array(Y.shape[1])}
    counts = SetCounts(Y.shape[0], sets.shape[0], Y.shape[1], unseen)
    return Finished((write_arrays(folder, SETS, arrays),), counts)


@lru_cache(maxsize=1)
def read_sets(folder: str) -> Sets:
    """The label sets that `find_sets` wrote."""
    arrays = read_arrays(folder, SETS)
    shape = (len(arrays["indptr"]) - 1, int(arrays["n_labels"]))
    ones = np.ones(len(arrays["indices"]), np.float32)
    return Sets(sp.csr_matrix((ones, arrays["indices"], arrays["indptr"]), shape), arrays["member"])


def prepare_head(folder: str, unit: HeadToPrepare, shared: None) -> Finished[PreparedHead]:
    """Check the weights of a head, and write them where every worker finds them."""
    source = unit.source
    if source.mode != MODE:
        return _prepare_rows(folder, source)
    W, bias, told = _read_weights(source)
    arrays = {"W": W} if bias is None else {"W": W, "bias": bias}
    chosen_here = source.layer is None and source.bias in (None, NO_BIAS) and source.bias_key is None
    told = told if chosen_here else ""  # a choice of the user is not repeated, and no output names input files
    k = find_dft_k(W) if bias is None else None
    prepared = PreparedHead(source.name, source.layer, len(W), W.shape[1], bias is not None, told, k or None, MODE)
    return Finished((write_arrays(folder, _weights_path(source.name), arrays),), prepared)


def _prepare_rows(folder: str, source: HeadSource) -> Finished[PreparedHead]:
    """`prepare_head` for scores that are compared with each other: rows are copied as they are stored."""
    alone = source.layer is not None and source.bias_key not in tensor_names(source.path)
    rows, bias, told = open_layer(
        source.path, source.key, NO_BIAS if alone else source.bias, None if alone else source.bias_key
    )
    chosen_here = source.layer is None and source.bias in (None, NO_BIAS) and source.bias_key is None
    written = []
    for name, array in (("rows", rows.stored), ("bias", bias)):
        if array is not None:
            path = _rows_path(source.name, name, rows.bfloat)
            with files.open_write(files.join(folder, path)) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)
            written.append(entry_of_file(folder, path))
    prepared = PreparedHead(
        source.name, source.layer, len(rows), rows.d, bias is not None, told if chosen_here else "", None, source.mode
    )
    return Finished(tuple(written), prepared)


def _rows_path(head: str, name: str, bfloat: bool) -> str:
    """Where rows or biases of a head are, inside the stage's folder; numpy has no name for bfloat16."""
    return f"heads/{head}-{name}.{'bfloat16.' if bfloat and name == 'rows' else ''}npy"


@lru_cache(maxsize=1)
def read_rows(folder: str, head: str, every_label: bool) -> LiftedLayer:
    """The rows of a head whose scores are compared with each other, mapped from their file."""
    bfloat = files.exists(files.join(folder, _rows_path(head, "rows", bfloat=True)))
    path = files.join(folder, _rows_path(head, "rows", bfloat))
    stored = np.load(files.local(path), mmap_mode="r") if files.is_local(path) else read_npy(path)
    bias = files.join(folder, _rows_path(head, "bias", bfloat))
    shifts = read_npy(bias) if files.exists(bias) else None
    return prepare_rows(StoredRows(stored, bfloat), shifts, every_label=every_label)


def _read_weights(source: HeadSource) -> StoredLayer:
    """The weights of a trained head have a bias if its file has one; of given weights, `read_layer` looks for it."""
    if source.layer is None or source.bias_key in tensor_names(source.path):
        return read_layer(source.path, source.key, source.bias, source.bias_key)
    return read_layer(source.path, source.key, NO_BIAS)


def _weights_path(head: str) -> str:
    """Where the checked weights of a head are, inside the stage's folder."""
    return f"heads/{head}.npz"


@lru_cache(maxsize=1)
def read_output_layer(folder: str, head: str) -> OutputLayer:
    """The output layer of a head. A process keeps the last one, because it verifies many chunks of sets with it."""
    arrays = read_arrays(folder, _weights_path(head))
    return prepare_layer(arrays["W"], arrays.get("bias"))


def _read_prepared(folder: str, unit: SetRange) -> OutputLayer | LiftedLayer:
    """The layer of a unit's head; in mode argmax every label is asked about."""
    if unit.mode == MODE:
        return read_output_layer(folder, unit.head)
    return read_rows(folder, unit.head, unit.mode == "argmax")


def verify_sets(folder: str, unit: SetRange, shared: Exactness) -> Finished[None]:
    """Write the verdicts on the distinct sets of one unit as a Parquet part."""
    params = shared.params
    sets = read_sets(folder).distinct[unit.first : unit.first + unit.size]
    verdicts = verify_chunk(
        _read_prepared(folder, unit),
        sets,
        params.radius,
        mode=unit.mode,
        inputs=params.inputs_asked,
        eps=params.eps,
        box=params.box,
        threads=1,
        backend=shared.backend,
    )
    path = f"parts/{unit.name}.parquet"
    write_verdicts(files.join(folder, path), verdicts, sets.indptr, sets.indices)
    return Finished((entry_of_file(folder, path),), None)
