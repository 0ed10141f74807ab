"""The rows of a stand-in, piece by piece, and the planted truth behind them.

Holds no files. Every row has a random generator of its own, so pieces can be made in any order, on any machine.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from xpipe.ground.sparse import Triple
from xpipe.ground.sparse_rows import row_pointers
from xpipe.synth._numba import Chances, RowLists, sample_rows
from xpipe.synth.draws import bits_for, lengths_of_rows
from xpipe.synth.model import ONE, Plan, plan_of
from xpipe.synth.spec import Piece, Spec, checked_seed, spec_of

# Multipliers of the Weyl sequences that choose row lengths: irrational numbers times 2**64
LABEL_STEP = 0x9E3779B97F4A7C15  # golden ratio
FEATURE_STEP = 0x6A09E667F3BCC909  # square root of 2


def rows_of(name: str, seed: int, piece: Piece) -> tuple[Triple, Triple]:
    """The features and labels of the rows of one piece.

    Parameters
    ----------
    name : str
        The name of the stand-in.
    seed : int
        From 0 on; another seed gives another stand-in.
    piece : Piece
        Which rows: one of `plan_pieces(name)`, or any other range of rows of a split.

    Returns
    -------
    features : Triple
        CSR arrays of shape (piece.n_rows, n_features), values float32, rows of length 1.
    labels : Triple
        CSR arrays of shape (piece.n_rows, n_labels), values 1.

    Raises
    ------
    ConfigError
        There is no stand-in of this name, or the seed is not a whole number from 0 on.

    Examples
    --------
    >>> from xpipe.synth import plan_pieces, rows_of
    >>> features, labels = rows_of("tiny", 0, plan_pieces("tiny")[0])
    >>> features.n_rows, labels.n_rows
    (256, 256)
    """
    spec = spec_of(name)
    plan = plan_of(spec.name, checked_seed(seed))
    kernel_key, label_key, feature_key = bits_for(seed, spec.name, piece.split).random_raw(3)
    rows = np.arange(piece.first_row, piece.first_row + piece.n_rows)
    label_counts = lengths_of_rows(plan.label_counts, label_key, LABEL_STEP, rows)
    feature_counts = lengths_of_rows(plan.feature_counts, feature_key, FEATURE_STEP, rows)
    given = RowLists(np.zeros(piece.n_rows + 1, dtype=np.int64), np.zeros(0, dtype=np.int32))
    if piece.split == "train":
        given = _certain_labels(plan, rows)
        label_counts = np.maximum(label_counts, np.diff(given.indptr))
        label_counts[np.isin(rows, plan.unlabelled)] = 0
    labels, features = _empty_lists(label_counts), _empty_lists(feature_counts)
    values = np.empty(len(features.indices), dtype=np.float32)
    sample_rows(kernel_key, piece.first_row, _chances(spec), plan.model, given, labels, features, values)
    ones = np.ones(len(labels.indices), dtype=np.float32)
    return Triple(*features, values), Triple(*labels, ones)


def _empty_lists(lengths: np.ndarray) -> RowLists:
    """Lists of these lengths for a kernel to fill."""
    indptr = row_pointers(lengths)
    return RowLists(indptr, np.empty(indptr[-1], dtype=np.int32))


def _certain_labels(plan: Plan, rows: np.ndarray) -> RowLists:
    """The labels that each of these consecutive training rows surely carries."""
    bounds = np.searchsorted(plan.certain_rows, [rows[0], rows[-1] + 1])
    indptr = np.searchsorted(plan.certain_rows, np.append(rows, rows[-1] + 1)) - bounds[0]
    return RowLists(indptr, plan.certain_labels[bounds[0] : bounds[1]])


def _chances(spec: Spec) -> Chances:
    """The probabilities of a specification as the integers that kernels compare random bits with."""
    low, high = spec.background
    return Chances(
        two_topics=np.uint64(spec.two_topics * ONE),
        stray=np.uint64(spec.stray * ONE),
        hidden=np.uint64(spec.hidden * ONE),
        background_low=np.uint64(low * ONE),
        background_width=np.uint64((high - low) * ONE),
        topic=np.uint64(spec.topic_share * ONE),
        genre=np.uint64(spec.genre_share * ONE),
        n_genres=np.uint64(spec.genres),
    )


def planted_truth(name: str, seed: int = 0) -> sp.csr_matrix:
    """How often each of a label's characteristic words is drawn.

    Parameters
    ----------
    name : str
        The name of the stand-in.
    seed : int
        Its seed.

    Returns
    -------
    scipy.sparse.csr_matrix of shape (n_labels, n_features)
        float32; every row adds up to 1.

    Raises
    ------
    ConfigError
        There is no stand-in of this name, or the seed is not a whole number from 0 on.

    Examples
    --------
    >>> from xpipe.synth import planted_truth
    >>> planted_truth("tiny").shape
    (60, 300)
    """
    spec = spec_of(name)
    model = plan_of(spec.name, checked_seed(seed)).model
    n_words = model.label_words.shape[1]
    share = np.bincount(model.slot_of_byte, minlength=n_words) / 256
    rows = np.repeat(np.arange(spec.n_labels), n_words)
    entries = (np.tile(share, spec.n_labels).astype(np.float32), (rows, model.label_words.ravel()))
    return sp.csr_matrix(entries, shape=(spec.n_labels, spec.n_features))
