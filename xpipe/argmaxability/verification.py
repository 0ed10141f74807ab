"""Verdicts on all label sets, in one call or chunk by chunk.

Holds no searching and no proofs: those are in `unit`, `search` and `certificate`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from xpipe.argmaxability.head import Head, check_limits, check_sets, distinct_sets, state_head
from xpipe.argmaxability.search import Limits
from xpipe.argmaxability.unit import Unit, one_blas_thread
from xpipe.argmaxability.verdicts import Verdicts
from xpipe.errors import ConfigError
from xpipe.ground.machine import usable_cores

UNIT = 32  # sets solved together; never changes with the number of workers
Radius = Literal["bounds", "exact"]


def verify(
    W: Any,
    Y: Any,
    bias: Any = None,
    *,
    box: float = 1e4,
    eps: float = 1e-8,
    radius: Radius = "bounds",
    threads: int | None = None,
    backend: Any = None,
    progress: Callable[[int], None] | None = None,
) -> Verdicts:
    """A certified verdict on every label set: can the head score its labels above 0 and all others below?

    W: n_labels x d, float32 or float64; Y: CSR, a row a label set; bias: n_labels numbers where the head has them.
    A set is argmaxable when inputs in [-box, box]^d with exactly its signs fill a ball of radius above eps, and
    unargmaxable when its radius is proved to be below. radius: "bounds" bounds it just well enough to settle that, and
    whether it is at least 1; "exact" until both bounds agree to 1e-6 relative.
    threads: default one a usable core. backend: of `backend.choose`; on a GPU, points are looked for there first.
    progress: told the number of distinct sets each time some are done.

    A label whose weights are all zero has the same score whatever the input: its bias, or 0, which is neither sign.
    Equal sets are solved once. The same bytes for any number of threads.
    Raises DataError where W, Y or bias are wrong, ConfigError where another option is.
    """
    head = state_head(W, bias)
    sets, member = distinct_sets(Y, head.n_labels)
    return verify_chunk(
        head,
        sets,
        radius,
        eps=eps,
        box=box,
        threads=usable_cores() if threads is None else threads,
        backend=backend,
        progress=progress,
    ).take(member)


def verify_chunk(
    head: Head,
    sets: sp.csr_matrix,
    radius: Radius = "bounds",
    *,
    eps: float = 1e-8,
    box: float = 1e4,
    threads: int = 1,
    backend: Any = None,
    progress: Callable[[int], None] | None = None,
) -> Verdicts:
    """Verdicts on label sets that are distinct already, unit by unit; the options are those of `verify`.

    What a set gets depends on the sets of its own unit alone: a chunk of whole units gets what it gets among all sets.
    """
    check_limits(eps, box)
    if radius not in ("bounds", "exact"):
        raise ConfigError(f"`radius` must be 'bounds' or 'exact', got {radius!r}")
    if threads < 1:
        raise ConfigError(f"`threads` must be at least 1, got {threads}", fix="leave it out: one a usable core")
    indptr, indices = check_sets(sets, head.n_labels)
    limits = Limits(eps, box, radius == "exact")
    hints = _find_hints(head, indptr, indices, limits, backend)

    def work(start: int) -> Verdicts:
        pointer = indptr[start : start + UNIT + 1]
        own = indices[pointer[0] : pointer[-1]]
        hint = None if hints is None else hints[start : start + UNIT]
        verdicts = Unit(head, pointer - pointer[0], own, limits, hint).verify()
        if progress is not None:
            progress(len(verdicts))
        return verdicts

    with one_blas_thread(), ThreadPoolExecutor(threads, thread_name_prefix="xpipe-verify") as pool:
        return Verdicts.concatenate(list(pool.map(work, range(0, max(len(indptr) - 1, 1), UNIT))))


def _find_hints(head: Head, indptr: np.ndarray, indices: np.ndarray, limits: Limits, backend: Any) -> np.ndarray | None:
    """Points from the GPU, where there is one and they can settle anything: not exact radii, and no bias."""
    if (
        backend is None
        or backend.name != "gpu"
        or limits.exact
        or head.bias is not None
        or len(head.real) < len(head.W)
    ):
        return None
    from xpipe.argmaxability._cupy import find_points

    return find_points(backend.array_module, head.directions, indptr, indices, limits.enough)
