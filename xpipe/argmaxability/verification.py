"""Verdicts on all label sets, in one call or chunk by chunk.

Holds no searching and no proofs: those are in `block`, the searches and `certificate`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.sparse as sp

from xpipe.argmaxability.block import Block, one_blas_thread
from xpipe.argmaxability.lifted import CACHED, LiftedLayer, prepare_rows
from xpipe.argmaxability.limits import Limits, make_limits
from xpipe.argmaxability.memory import threads_within
from xpipe.argmaxability.modes import make_question, refuse_other_sizes, sets_asked
from xpipe.argmaxability.options import BOX, EPS, INPUTS, MODE, RADIUS, Inputs, Mode, Radius
from xpipe.argmaxability.output_layer import OutputLayer, prepare_layer
from xpipe.argmaxability.separation_block import SeparationBlock
from xpipe.argmaxability.sets import check_sets, distinct_sets
from xpipe.argmaxability.torch_layers import as_array, given_layer
from xpipe.argmaxability.verdicts import Verdicts
from xpipe.errors import ConfigError
from xpipe.ground.backend import Backend
from xpipe.ground.machine import usable_cores

SETS_PER_BLOCK = 32  # label sets solved together; the same for any number of workers
SETS_PER_LIFTED_BLOCK = 128  # the same in modes topk and argmax, whose weights may be many: fewer passes over them
SETS_PER_LARGE_BLOCK = 1024  # the same in mode argmax with many weights: few of these sets need a search


def verify(
    W: object,
    Y: sp.spmatrix | None = None,
    bias: np.ndarray | None = None,
    *,
    key: str | None = None,
    mode: Mode = MODE,
    inputs: Inputs = INPUTS,
    box: float = BOX,
    eps: float = EPS,
    radius: Radius = RADIUS,
    threads: int | None = None,
    backend: Backend | None = None,
    progress: Callable[[int], None] | None = None,
    memory_limit: str | int | None = None,
) -> Verdicts:
    """Decide for every label set whether an output layer or an index can give it, with certificates.

    In mode sign, a set is given by an input whose scores W x + bias are above 0 for its labels and below 0 for all
    others; in mode topk by one that scores all its labels above all others. It is argmaxable when such inputs within
    [-box, box]^d fill a ball of radius above `eps`, and unargmaxable when its radius is proved to be below `eps`.
    `modes` defines the radius of each mode.

    Parameters
    ----------
    W : array_like of float, shape (n_labels, d)
        The weights, one row per label: of an output layer, or the rows of an index. In modes topk and argmax they may
        be float16 or float32, or a `StoredRows` of any of these and bfloat16, and a memory map: no copy is made. Or the
        layer as PyTorch has it: a torch.nn.Linear (its bias is used), a head of `xpipe.heads`, a Parameter or tensor on
        any device, or a state dict (the bias beside the weights is used).
    Y : scipy sparse matrix, shape (n_sets, n_labels), optional
        One label set per row; entries that are not 0 are its labels. Equal sets are solved once. May be left out in
        mode argmax: every label is asked about.
    bias : array_like of float, shape (n_labels,), optional
        The biases, where the layer has them and W does not bring them.
    key : str, optional
        The name of the weights in a state dict; not needed where it has one matrix.
    mode : {"sign", "topk", "argmax"}, default "sign"
        "sign": scores above 0 for the labels of the set, below 0 for all others (sigmoid layers). "topk": the labels
        of the set score above all others (softmax layers, retrieval). "argmax": the same for sets of one label.
    inputs : {"any", "nonnegative"}, default "any"
        "nonnegative": inputs are looked for in [0, box]^d, as behind a ReLU.
    box : float, default 1e4
        Inputs are looked for in [-box, box]^d.
    eps : float, default 1e-8
        The radius that separates argmaxable from unargmaxable sets; at most 1.
    radius : {"bounds", "exact"}, default "bounds"
        "bounds": bound each radius just well enough to decide the verdict, and whether it is at least 1.
        "exact": until both bounds agree to 1e-6 relative.
    threads : int, optional
        Default: one per usable core. The number changes no byte of the result.
    backend : Backend, optional
        From `xpipe.ground.backend.choose`. On a GPU, points are looked for there first.
    progress : callable, optional
        Called with the number of distinct sets each time some are done.
    memory_limit : int or str, optional
        Bytes to hold beyond W, such as "2GiB". It bounds the number of threads, so it changes no byte of the result.

    Returns
    -------
    Verdicts
        One verdict per row of Y. A label whose weights are all zero has a constant score, its bias or 0; a score of 0
        has neither sign.

    Raises
    ------
    DataError
        If W, Y or bias is wrong.
    ConfigError
        If another option is wrong.
    ResourceError
        If `memory_limit` is not enough for one thread.

    Examples
    --------
    One input cannot be above and below 0, so no input gives both labels:

    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from xpipe.argmaxability import verify
    >>> W = np.array([[1.0], [-1.0]])
    >>> Y = sp.csr_matrix([[1, 0], [1, 1]])
    >>> verify(W, Y).status.tolist()
    ['argmaxable', 'unargmaxable']

    Row 1 lies between the others, so it never has the highest score:

    >>> verify(np.array([[1.0], [0.5], [-1.0]]), mode="argmax").status.tolist()
    ['argmaxable', 'unargmaxable', 'argmaxable']
    """
    question = make_question(mode, inputs)
    W, bias = given_layer(W, bias, key)
    every_label = Y is None
    layer = prepare_layer(as_array(W), bias) if question.of_signs else prepare_rows(W, bias, every_label=every_label)
    sets, member = distinct_sets(sets_asked(Y, layer.n_labels, mode), layer.n_labels)
    return verify_chunk(
        layer,
        sets,
        radius,
        mode=mode,
        inputs=inputs,
        eps=eps,
        box=box,
        threads=usable_cores() if threads is None else threads,
        backend=backend,
        progress=progress,
        memory_limit=memory_limit,
    ).take(member)


def verify_chunk(
    layer: OutputLayer | LiftedLayer,
    sets: sp.csr_matrix,
    radius: Radius = RADIUS,
    *,
    mode: Mode = MODE,
    inputs: Inputs = INPUTS,
    eps: float = EPS,
    box: float = BOX,
    threads: int = 1,
    backend: Backend | None = None,
    progress: Callable[[int], None] | None = None,
    memory_limit: str | int | None = None,
) -> Verdicts:
    """Decide for label sets that are distinct already; for callers that spread sets over processes.

    The verdict on a set depends on the sets of its own block alone. So a chunk of whole blocks (SETS_PER_BLOCK sets
    each; in other modes than sign `sets_per_block` says how many) gives the same bytes as a run over all sets.

    Parameters
    ----------
    layer : OutputLayer or LiftedLayer
        From `prepare_layer`; in modes topk and argmax from `prepare_rows`.
    sets : scipy.sparse.csr_matrix, shape (n_sets, n_labels)
        Some rows of what `distinct_sets` gives.
    radius, mode, inputs, eps, box, threads, backend, progress, memory_limit
        As in `verify`; here the default is one thread.

    Returns
    -------
    Verdicts
        One verdict per row of `sets`.

    Raises
    ------
    DataError
        If the sets are wrong.
    ConfigError
        If another option is wrong.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.argmaxability import distinct_sets, prepare_layer, verify_chunk
    >>> layer = prepare_layer([[1.0], [-1.0]])
    >>> sets, member = distinct_sets(sp.csr_matrix([[1, 0], [1, 1], [1, 0]]), layer.n_labels)
    >>> verify_chunk(layer, sets).take(member).status.tolist()
    ['argmaxable', 'unargmaxable', 'argmaxable']
    """
    question = make_question(mode, inputs)
    limits = make_limits(eps, box, radius, inputs)
    if isinstance(layer, LiftedLayer) == question.of_signs:
        raise ConfigError(f"this layer was not prepared for mode {mode}", fix="prepare_layer: sign; prepare_rows: else")
    if threads < 1:
        raise ConfigError(f"`threads` must be at least 1, got {threads}", fix="leave it out: one per usable core")
    indptr, indices = check_sets(sets, layer.n_labels)
    refuse_other_sizes(indptr, mode)
    together = sets_per_block(mode, layer.W.size if isinstance(layer, OutputLayer) else layer.rows.stored.size)
    threads = threads_within(memory_limit, layer, together, len(indptr) - 1, threads)
    hints = _find_hints(layer, indptr, indices, limits, backend)

    def work(start: int) -> Verdicts:
        pointer = indptr[start : start + together + 1]
        own = indices[pointer[0] : pointer[-1]]
        hint = None if hints is None else hints[start : start + together]
        if isinstance(layer, LiftedLayer):
            block: Block = SeparationBlock(layer, pointer - pointer[0], own, limits, mode)
        else:
            block = Block(layer, pointer - pointer[0], own, limits, hint)
        verdicts = block.verify()
        if progress is not None:
            progress(len(verdicts))
        return verdicts

    with one_blas_thread(), ThreadPoolExecutor(threads, thread_name_prefix="xpipe-verify") as pool:
        return Verdicts.concatenate(list(pool.map(work, range(0, max(len(indptr) - 1, 1), together))))


def sets_per_block(mode: Mode, n_weights: int) -> int:
    """How many sets are solved together: chunks of sets must be multiples of it. n_weights: numbers of the weights."""
    if mode == "sign":
        return SETS_PER_BLOCK
    return SETS_PER_LARGE_BLOCK if mode == "argmax" and n_weights > CACHED else SETS_PER_LIFTED_BLOCK


def _find_hints(
    layer: OutputLayer | LiftedLayer,
    indptr: np.ndarray,
    indices: np.ndarray,
    limits: Limits,
    backend: Backend | None,
) -> np.ndarray | None:
    """Points from the GPU. None without a GPU, and where points cannot settle anything: exact radii, biases."""
    if backend is None or backend.name != "gpu" or isinstance(layer, LiftedLayer) or limits.nonnegative:
        return None
    if limits.exact or layer.bias is not None or len(layer.real) < len(layer.W):
        return None
    from xpipe.argmaxability._cupy import find_points

    return find_points(backend.array_module, layer.directions, indptr, indices, limits.enough)
