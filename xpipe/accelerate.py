"""The one place that sets numba options."""

from __future__ import annotations

from numba import njit

# nogil: kernels run side by side in plain threads; numba's own parallel layers abort under Dask's threads (numba 9288).
# cache: compiled once a machine, not once a process.
jit = njit(nogil=True, cache=True, fastmath=False)
