"""Rows as lines of text: one line per row, values that read back."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from tests.formats import oracles, strategies
from xpipe.formats.row_text import BLOCK_ENTRIES, format_blocks, format_rows
from xpipe.ground.sparse import Triple, to_triple


def test_format_rows():
    features = Triple(
        np.array([0, 0, 1, 1, 3]), np.array([1, 2, 3], np.int32), np.array([1e-5, -0.0, 1e-45], np.float32)
    )
    labels = Triple(np.array([0, 0, 0, 2, 3]), np.array([1, 2, 0], np.int32), np.ones(3, np.float32))
    assert format_rows(features, labels) == b"\n 1:0.00001\n1,2\n0 2:-0 3:1e-45\n"
    assert format_rows(features, None) == b"\n1:0.00001\n\n2:-0 3:1e-45\n"
    part = Triple(features.indptr[1:], features.indices, features.values)  # a view of some rows
    assert format_rows(part, None) == b"1:0.00001\n\n2:-0 3:1e-45\n"
    assert format_rows(features, labels, index_base=1, label_base=1, empty_row=b" 1:0") == (
        b" 1:0\n 2:0.00001\n2,3\n1 3:-0 4:1e-45\n"
    )


def test_blocks_of_lines_are_cut_by_entries():
    n = BLOCK_ENTRIES // 2 + 10
    indices = np.zeros(4 * n, np.int32)
    triple = Triple(np.arange(5, dtype=np.int64) * n, indices, np.ones(4 * n, np.float32))
    pieces = list(format_blocks(triple, None))
    assert [piece.count(b"\n") for piece in pieces] == [1, 1, 1, 1]
    assert b"".join(pieces) == (b" ".join([b"0:1"] * n) + b"\n") * 4


@settings(deadline=None)
@given(strategies.matrices(n_rows=5))
def test_values_are_written_so_that_they_read_back(X):
    lines = format_rows(to_triple(X), None).decode()
    oracles.assert_same(oracles.parse_lines(lines, "sparse", X.shape[1], 0)[0], X)
