"""Counted terms of texts as CSR rows: columns, tf-idf values, a norm, in threads.

Holds no texts and no loop over entries (`_rows_numba`).
"""

from __future__ import annotations

from queue import SimpleQueue

import numpy as np

from xpipe.ground.machine import lent
from xpipe.ground.sparse import Triple
from xpipe.ground.sparse_rows import row_pointers
from xpipe.text import _rows_numba
from xpipe.text._rows_numba import L1, L2, NO_NORM, Marks, Weighting
from xpipe.text.counting import ChunkTerms, in_order
from xpipe.text.options import VectorizerOptions
from xpipe.text.vocabulary import Vocabulary

NORMS = {None: NO_NORM, "l1": L1, "l2": L2}
KNOWN_LOGARITHMS = 256  # of larger counts, they are computed one by one


def weigh_terms(
    chunks: list[ChunkTerms],
    columns: list[np.ndarray],
    vocabulary: Vocabulary,
    options: VectorizerOptions,
    threads: int,
) -> Triple:
    """The rows of all chunks. columns: for each table, the column of each term or -1. `chunks` is emptied.

    A chunk is freed as soon as its rows are written, so both are never in memory as a whole.
    """
    kept = [np.empty(len(chunk.lengths), dtype=np.int64) for chunk in chunks]

    def count(number: int) -> None:
        chunk = chunks[number]
        _rows_numba.count_kept(chunk.terms, chunk.lengths, columns[chunk.table], kept[number])

    for _ in in_order(count, range(len(chunks)), threads):
        pass
    indptr = row_pointers(np.concatenate([np.zeros(0, dtype=np.int64), *kept]))
    starts = row_pointers([int(lengths.sum()) for lengths in kept])
    indices, values = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1], dtype=np.float32)
    spaces: SimpleQueue[Marks] = SimpleQueue()
    longest = max((int(lengths.max(initial=0)) for lengths in kept), default=0)
    for _ in range(threads):
        spaces.put(_make_marks(len(vocabulary.idf), longest))
    weighting = _make_weighting(vocabulary, options)
    left: list[ChunkTerms | None] = list(chunks)
    chunks.clear()

    def write(number: int) -> None:
        chunk, part = left[number], slice(starts[number], starts[number + 1])
        left[number] = None
        assert chunk is not None, "each chunk is written once"
        with lent(spaces) as marks:
            _rows_numba.write_rows(
                chunk.terms, chunk.counts, chunk.lengths, columns[chunk.table], weighting, marks, indices[part],
                values[part],
            )  # fmt: skip

    for _ in in_order(write, range(len(left)), threads):
        pass
    return Triple(indptr, indices, values)


def _make_weighting(vocabulary: Vocabulary, options: VectorizerOptions) -> Weighting:
    """How counts become values, as kernels take it."""
    logarithms = np.zeros(KNOWN_LOGARITHMS)
    logarithms[1:] = 1.0 + np.log(np.arange(1, KNOWN_LOGARITHMS))
    return Weighting(vocabulary.idf, options.binary, options.sublinear, logarithms, NORMS[options.norm])


def _make_marks(n_columns: int, longest: int) -> Marks:
    """Work space of one thread."""
    sizes = [n_columns]
    for _ in range(3):
        sizes.append(sizes[-1] // 64 + 1)
    columns, words, pages = (np.zeros(size, dtype=np.uint64) for size in sizes[1:])
    return Marks(columns, words, pages, np.zeros(n_columns, dtype=np.int32), np.empty(longest))
