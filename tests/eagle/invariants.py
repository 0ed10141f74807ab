"""What holds for every method of imputation on any data: each check raises AssertionError. Holds no generator."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from xpipe.eagle import Imputed, impute
from xpipe.grouping.groups import spread_labels

METHODS = ("auto", "baseline", "eagle0", "eagle", "centred", "discriminative")
CHOOSING = ("auto", "discriminative")


def check_owners(X: sp.csr_matrix, Y1: sp.csr_matrix, Y2: sp.csr_matrix, found: Imputed) -> None:
    """No label is lost, none invented; groups of one are exact; scores are finite; chances are from 0 to 1. Slow."""
    owned, members, labels = found.labels.toarray() > 0, Y1.toarray() != 0, Y2.toarray() != 0
    allowed = spread_labels(Y1, Y2).toarray() > 0
    assert owned.shape == allowed.shape
    assert not (owned & ~allowed).any()
    has_owner = members.T.astype(np.float32) @ owned > 0
    lost = labels & ~has_owner & members.any(axis=0)[:, None]
    assert not lost.any(), f"{lost.sum()} labels lost, first {np.argwhere(lost)[0]}"
    single = members & (members.sum(axis=0) == 1)
    assert not ((single.astype(np.float32) @ labels > 0) & ~owned).any()
    if (members.sum(axis=0) == 1).all():
        assert (owned == allowed).all()
    assert (found.labels.data == 1).all()
    assert np.array_equal(found.labels.indptr, found.scores.indptr)
    assert np.array_equal(found.labels.indices, found.scores.indices)
    assert np.isfinite(found.scores.data).all()
    if found.trace["method"] == "discriminative":
        assert (found.scores.data >= 0).all()
        assert (found.scores.data <= 1).all()


def bytes_of(found: Imputed) -> tuple[bytes, ...]:
    labels = found.labels
    return labels.indptr.tobytes(), labels.indices.tobytes(), found.scores.data.tobytes()


def check_groups_renumbered(
    X: sp.csr_matrix, Y1: sp.csr_matrix, Y2: sp.csr_matrix, method: str, found: Imputed, order: int, **options
) -> None:
    """Other numbers of groups, and a few more empty groups, give the same owners; `discriminative` the same bytes.

    Where `auto` takes an embedding, its scores are sums over groups in their order, so they may be rounded otherwise.
    """
    groups = np.random.default_rng(order).permutation(Y1.shape[1] + 3)
    more = sp.hstack([Y1, sp.csr_matrix((X.shape[0], 3), dtype=np.float32)], format="csr")
    more_labels = sp.vstack([Y2, sp.csr_matrix(np.ones((3, Y2.shape[1]), np.float32))], format="csr")
    again = impute(X, sp.csr_matrix(more[:, groups]), sp.csr_matrix(more_labels[groups]), method, **options)
    assert again.trace["method"] == found.trace["method"], "renumbered groups lead to another method"
    assert (again.labels != found.labels).nnz == 0, "renumbered groups give other owners"
    if found.trace["method"] == "discriminative":
        assert bytes_of(again) == bytes_of(found), "renumbered groups give another answer"
    else:
        np.testing.assert_allclose(again.scores.data, found.scores.data, rtol=1e-5)


def check_labels_renumbered(
    X: sp.csr_matrix, Y1: sp.csr_matrix, Y2: sp.csr_matrix, method: str, found: Imputed, order: int, **options
) -> None:
    """Other numbers of labels give the same answer, where no two groups have the same samples."""
    if not groups_differ(Y1):
        return
    labels = np.random.default_rng(order).permutation(Y2.shape[1])
    again = impute(X, Y1, sp.csr_matrix(Y2[:, labels]), method, **options)
    back = np.argsort(labels)
    assert (sp.csr_matrix(again.labels[:, back]) != found.labels).nnz == 0, "renumbered labels give another answer"
    assert (sp.csr_matrix(again.scores[:, back]) != found.scores).nnz == 0


def groups_differ(Y1: sp.csr_matrix) -> bool:
    columns = Y1.toarray().T != 0
    filled = columns[columns.any(axis=1)]
    return len(np.unique(filled, axis=0)) == len(filled)


def check_scale(
    X: sp.csr_matrix, Y1: sp.csr_matrix, Y2: sp.csr_matrix, method: str, found: Imputed, large: bool, **options
) -> None:
    """Features times a power of two have the same owners, up to the limits of float32: nothing is rounded."""
    filled = np.abs(X.data[X.data != 0]).astype(np.float64)
    if not len(filled):
        return
    exponent = int(np.log2(1e38 / filled.max())) - 8 if large else int(np.log2(1e-37 / filled.min())) + 1
    scaled = X.copy()
    scaled.data = np.ldexp(X.data, exponent)
    if np.array_equal(np.ldexp(scaled.data, -exponent), X.data):
        again = impute(scaled, Y1, Y2, method, **options)
        assert (again.labels != found.labels).nnz == 0, f"2^{exponent} times the features: other owners"


def options_of(seed: int) -> dict:
    """Random options of discriminative, including extreme ones."""
    draw = np.random.default_rng([seed, 1])
    return {
        "owners": str(draw.choice(["one", "posterior"])),
        "ridge": [None, 0.0, 1e-30, 1.0, 30.0, 1e30][draw.integers(6)],
        "threshold": [None, 0.0, 0.5, 1.0][draw.integers(4)],
        "rank": [None, 1, 5][draw.integers(3)],
        "rounds": int(draw.choice([1, 10])),
        "threads": 1,
    }


def check_everything(X: sp.csr_matrix, Y1: sp.csr_matrix, Y2: sp.csr_matrix, seed: int) -> None:
    """Check all methods. The seed decides options, renumberings and scales."""
    for method in METHODS:
        found = impute(X, Y1, Y2, method, seed=seed, threads=1)
        check_owners(X, Y1, Y2, found)
        assert bytes_of(impute(X, Y1, Y2, method, seed=seed, threads=2 + seed % 2)) == bytes_of(found)
        if method == CHOOSING[seed % 2]:
            check_groups_renumbered(X, Y1, Y2, method, found, seed, seed=seed, threads=1)
        elif method in CHOOSING:
            options = options_of(seed)
            given = impute(X, Y1, Y2, method, **options)
            check_owners(X, Y1, Y2, given)
            check_scale(X, Y1, Y2, method, given, large=seed % 4 < 2, **options)
            check_numbers = check_groups_renumbered if seed % 3 else check_labels_renumbered
            check_numbers(X, Y1, Y2, method, given, seed, **options)
