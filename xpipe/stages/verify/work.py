"""Label sets and heads at a worker: made distinct once, stated once a process, verified a few sets at a time.

Knows nothing of Dask; the verdicts are `argmaxability`. What they come to is in `verify_report`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.argmaxability import Head, Verdicts, distinct_sets, find_dft_k, state_head, verify_chunk
from xpipe.argmaxability.layer import NONE, read_layer
from xpipe.argmaxability.verdicts import write_verdicts
from xpipe.argmaxability.weights import tensor_names
from xpipe.formats.parquet import read_about, read_split_labels
from xpipe.ground import files
from xpipe.ground.sparse import to_matrix
from xpipe.stages.arrays import packed, unpacked
from xpipe.stages.matrices import open_matrix
from xpipe.stages.read.work import entry_of

SETS = "sets/sets.npz"


class Sets(NamedTuple):
    """Each label set once, and which of them every row of the split is."""

    distinct: sp.csr_matrix
    member: np.ndarray


def find_sets(folder: str, shared: dict) -> tuple[list[dict], dict]:
    """The distinct label sets of the split, in the numbers of heads/ or as read where weights are given."""
    split, unseen = shared["params"]["split"], 0
    if shared["labels"] is None:
        Y = read_split_labels(shared["dataset"], split)
        unseen = read_about(shared["dataset"])["filtered"]["held_out_occurrences_of_these"].get(split, 0)
    else:
        stored = open_matrix(shared["labels"], split)
        Y = to_matrix(stored.load(), stored.n_columns)
    Y = sp.csr_matrix((np.ones(len(Y.indices), np.float32), Y.indices, Y.indptr), Y.shape)  # a score may be 0
    sets, member = distinct_sets(Y, Y.shape[1])
    arrays = {"indptr": sets.indptr, "indices": sets.indices, "member": member, "n_labels": np.array(Y.shape[1])}
    facts = {"rows": Y.shape[0], "distinct_sets": sets.shape[0], "n_labels": Y.shape[1], "unseen_occurrences": unseen}
    return [entry_of(folder, SETS, packed(arrays))], facts


@lru_cache(maxsize=1)
def read_sets(folder: str) -> Sets:
    arrays = unpacked(folder, SETS)
    shape = (len(arrays["indptr"]) - 1, int(arrays["n_labels"]))
    ones = np.ones(len(arrays["indices"]), np.float32)
    return Sets(sp.csr_matrix((ones, arrays["indices"], arrays["indptr"]), shape), arrays["member"])


def state(folder: str, unit: dict, shared: dict) -> tuple[list[dict], dict]:
    """A head's weights, checked, where every worker finds them; gives its size, and k where it begins with a DFT."""
    head = shared["heads"][unit["head"]]
    given = head["layer"] is None
    if given or head["bias_key"] in tensor_names(head["path"]):
        W, bias, told = read_layer(head["path"], head["key"], head["bias"], head["bias_key"])
    else:
        W, bias, told = read_layer(head["path"], head["key"], NONE)
    has_bias = bias is not None
    arrays = {"W": W} if bias is None else {"W": W, "bias": bias}
    chosen_here = given and head["bias"] in (None, NONE) and head["bias_key"] is None
    told = told if chosen_here else ""  # what was asked for needs no telling, and names of files are in no output
    facts = {"n_labels": len(W), "d": W.shape[1], "has_bias": has_bias, "bias_told": told}
    k = find_dft_k(W) if (given or head["layer"] == "dft") and not has_bias else None
    return [entry_of(folder, _weights_path(head), packed(arrays))], facts | ({"k": k} if k else {})


def _weights_path(head: dict) -> str:
    return f"heads/{head['name']}.npz"


def read_head(folder: str, head: dict) -> Head:
    return _read_head(folder, _weights_path(head))


@lru_cache(maxsize=1)
def _read_head(folder: str, path: str) -> Head:
    """A process keeps a head: it verifies many chunks of sets with it."""
    arrays = unpacked(folder, path)
    return state_head(arrays["W"], arrays.get("bias"))


def verify(folder: str, unit: dict, shared: dict) -> tuple[list[dict], dict]:
    """Verdicts on the distinct sets of one unit, as a Parquet part."""
    head, params = shared["heads"][unit["head"]], shared["params"]
    sets = read_sets(folder).distinct[unit["first"] : unit["first"] + unit["rows"]]
    verdicts: Verdicts = verify_chunk(
        read_head(folder, head),
        sets,
        params["radius"],
        eps=params["eps"],
        box=params["box"],
        threads=1,
        backend=shared["backend"],
    )
    path = f"parts/{unit['unit']}.parquet"
    write_verdicts(files.join(folder, path), verdicts, sets.indptr, sets.indices)
    return [file_entry(folder, path)], {}


def file_entry(folder: str, path: str) -> dict:
    target = files.join(folder, path)
    return {"path": path, "bytes": files.size(target), "sha256": files.sha256(target)}
