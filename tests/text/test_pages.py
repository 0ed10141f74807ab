"""Arrays in pages of their own: zeros that can be written, of any size and type."""

from __future__ import annotations

import numpy as np
import pytest

from xpipe.text import pages


@pytest.mark.parametrize("size", [0, 1, pages.SMALLEST // 8, pages.SMALLEST])
@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.uint64])
def test_zeros_and_copies(size, kind):
    array = pages.zeros(size, kind)
    assert array.dtype == kind
    assert len(array) == size
    assert not array.any()
    array[:] = np.arange(size) % 250
    copy = pages.copy_of(array, np.int64)
    assert np.array_equal(copy, np.arange(size) % 250)
    copy[:] = 1
    assert size < 2 or array[0] == 0
