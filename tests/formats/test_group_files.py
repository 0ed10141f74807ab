"""Lists of group ids, and membership matrices."""

from __future__ import annotations

import numpy as np
import pytest

from xpipe.errors import DataError
from xpipe.formats import read_group_ids, read_membership


def test_group_ids(write):
    Y1 = read_group_ids(write("2\n-1\n\n0\n2"))
    np.testing.assert_array_equal(Y1.toarray(), [[0, 0, 1], [0, 0, 0], [0, 0, 0], [1, 0, 0], [0, 0, 1]])
    assert Y1.dtype == np.float32
    assert read_group_ids(write("1\n2\n"), base=1).shape == (2, 2)
    assert read_group_ids(write("1\n"), n_groups=5).shape == (1, 5)
    assert read_group_ids(write("")).shape == (0, 0)
    with pytest.raises(DataError, match="2 group ids for 3 samples"):
        read_group_ids(write("1\n2\n"), n_rows=3)
    for text, options in (
        ("1\nx\n", {}),
        ("1\n-2\n", {}),
        ("1\n1 2\n", {}),
        ("1\n0\n", {"base": 1}),
        ("1\n4\n", {"n_groups": 4}),
    ):
        with pytest.raises(DataError, match=r"f\.txt:2"):
            read_group_ids(write(text), **options)


def test_membership_of_either_kind(write):
    np.testing.assert_array_equal(read_membership(write("1\n0\n")).toarray(), [[0, 1], [1, 0]])
    both = write("2 2\n0:1 1:1\n0:1\n")
    np.testing.assert_array_equal(read_membership(both).toarray(), [[1, 1], [1, 0]])
    np.testing.assert_array_equal(read_membership(both, samples=np.array([1])).toarray(), [[1, 0]])
    with pytest.raises(DataError, match="sample 2 is needed"):
        read_membership(both, samples=np.array([2]))
