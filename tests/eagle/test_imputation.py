"""Any method in one call: no label is lost, whatever the data and options; numbering and scale decide nothing."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.eagle.invariants import (
    METHODS,
    bytes_of,
    check_everything,
    check_groups_renumbered,
    check_labels_renumbered,
    check_owners,
)
from tests.eagle.problems import random_problem
from tests.eagle.samples import overlapping, planted
from tests.eagle.strategies import problems
from xpipe.eagle import impute
from xpipe.errors import ConfigError
from xpipe.grouping import random_groups, spread_labels


def csr(numbers) -> sp.csr_matrix:
    return sp.csr_matrix(np.asarray(numbers, dtype=np.float32))


def pairs_of(n_groups: int, size: int = 2) -> sp.csr_matrix:
    return csr(np.repeat(np.eye(n_groups), size, axis=0))


def with_zeros(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """The same matrix with zeros that are stored, and weights."""
    dense = np.ones(matrix.shape, dtype=np.float32)
    stored = sp.csr_matrix(dense)
    stored.data[:] = 2.5 * matrix.toarray().ravel()
    return stored


X_MINUS_X = csr(np.tile([[1, 2, 3], [-1, -2, -3]], (40, 1)))
SAMPLES = csr(np.random.default_rng(0).random((80, 6)) - 0.3)
EDGES = {
    "x and -x, both labels everywhere": (X_MINUS_X, pairs_of(40), csr(np.ones((40, 2)))),
    "x and -x, few groups": (X_MINUS_X[:8], pairs_of(4), csr(np.ones((4, 2)))),
    "one-hot": (csr(np.tile(np.eye(4), (20, 1))), pairs_of(40), csr(np.tile(np.eye(2), (20, 1)))),
    "one-hot, one label": (csr(np.tile(np.eye(4), (20, 1))), pairs_of(40), csr(np.ones((40, 1)))),
    "1e-30": (SAMPLES * np.float32(1e-30), pairs_of(40), csr(np.eye(40)[:, :9] + np.eye(40)[::-1, :9])),
    "1e-44": (SAMPLES * np.float32(1e-44), pairs_of(40), csr(np.tile(np.eye(2), (20, 1)))),
    "1e38": (SAMPLES * np.float32(1e38), pairs_of(40), csr(np.tile(np.eye(2), (20, 1)))),
    "identical rows": (csr(np.ones((80, 3))), pairs_of(40), csr(np.tile(np.eye(2), (20, 1)))),
    "rows of zeros": (sp.csr_matrix((80, 3), dtype=np.float32), pairs_of(40), csr(np.ones((40, 2)))),
    "zeros that are stored": (with_zeros(csr(np.zeros((80, 3)))), pairs_of(40), csr(np.ones((40, 2)))),
    "one row has a value": (csr(np.eye(80)[:, 3:4]), pairs_of(40), csr(np.tile(np.eye(2), (20, 1)))),
    "one group": (SAMPLES, csr(np.ones((80, 1))), csr([[1, 0, 1]])),
    "two groups": (SAMPLES, pairs_of(2, 40), csr([[1, 0, 1], [1, 1, 0]])),
    "one sample": (csr([[1, 2]]), csr([[1, 1]]), csr([[1, 0], [0, 1]])),
    "one feature": (SAMPLES[:, :1], pairs_of(40), csr(np.tile(np.eye(2), (20, 1)))),
    "no features": (sp.csr_matrix((80, 0), dtype=np.float32), pairs_of(40), csr(np.ones((40, 2)))),
    "no groups": (SAMPLES, sp.csr_matrix((80, 0), dtype=np.float32), sp.csr_matrix((0, 3), dtype=np.float32)),
    "no members": (SAMPLES, sp.csr_matrix((80, 5), dtype=np.float32), csr(np.ones((5, 3)))),
    "no labels": (SAMPLES, pairs_of(40), sp.csr_matrix((40, 3), dtype=np.float32)),
    "groups of one": (SAMPLES, csr(np.eye(80)), csr(np.random.default_rng(1).random((80, 7)) < 0.3)),
    "an outlier in groups of one": (csr(1 - 101 * np.eye(200)[:, [7, 7, 7]]), csr(np.eye(200)), csr(np.eye(200))),
    "mostly empty groups": (SAMPLES, csr(np.eye(80)[:, :60] * (np.arange(80) < 6)[:, None]), csr(np.ones((60, 3)))),
    "weights and stored zeros": (SAMPLES, with_zeros(pairs_of(40)), with_zeros(csr(np.tile(np.eye(2), (20, 1))))),
}  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("edge", EDGES)
def test_edges(edge, method):
    X, Y1, Y2 = EDGES[edge]
    check_owners(X, Y1, Y2, impute(X, Y1, Y2, method))
    if method in ("auto", "discriminative"):
        for ridge, threshold in ((0.0, 1.0), (1e-30, 0.0), (1e30, 1.0), (1.0, None)):
            found = impute(X, Y1, Y2, method, ridge=ridge, threshold=threshold, owners="posterior")
            check_owners(X, Y1, Y2, found)


extreme = st.sampled_from([0.0, 1.0, -1.0, 1e-45, -1e-30, 1e-20, 1e20, -1e30, 3e38, 0.5, 2.0])


@given(
    problems(most=12),
    st.sampled_from(METHODS),
    st.sampled_from(["one", "posterior"]),
    st.sampled_from([None, 0.0, 1e-300, 1.0, 1e300]),
    st.sampled_from([None, 0.0, 0.5, 1.0]),
    st.sampled_from([None, 1, 3]),
    st.one_of(st.none(), st.lists(extreme, min_size=1, max_size=9)),
)
@settings(max_examples=200, deadline=None)
def test_no_label_is_lost(problem, method, owners, ridge, threshold, rank, values):
    X, Y1, Y2 = problem
    if values and X.nnz:
        X = X.copy()
        X.data = np.resize(np.array(values, dtype=np.float32), X.nnz)
    found = impute(X, Y1, Y2, method, owners=owners, ridge=ridge, threshold=threshold, rank=rank, threads=1)
    check_owners(X, Y1, Y2, found)


@given(st.integers(0, 10**9))
@settings(max_examples=12, deadline=None)
def test_every_invariant_on_random_problems(seed):
    _, problem = random_problem(seed, fewest=40, most=90)
    check_everything(*problem, seed)


@pytest.mark.parametrize("method", ["auto", "discriminative"])
@pytest.mark.parametrize(
    "options", [{}, {"ridge": 3.0, "threshold": 0.3}, {"ridge": 3.0, "threshold": 0.3, "owners": "one"}]
)
def test_numbers_of_groups_and_labels_decide_nothing(method, options):  # fmt: skip
    X, Y = planted(n_samples=600)
    Y1, Y2 = overlapping(Y)
    found = impute(X, Y1, Y2, method, **options)
    assert found.trace["choice"]["calibration"]
    check_groups_renumbered(X, Y1, Y2, method, found, 5, **options)
    check_labels_renumbered(X, Y1, Y2, method, found, 5, **options)


@cache
def labels_of_planted(method):
    X, Y = planted(n_samples=400)
    return impute(X, *random_groups(Y, 4, 0), method).labels


@pytest.mark.parametrize("scale", [1e-38, 1e-30, 1e-10, 1e10, 1e20, 1e30, 1e38])
def test_large_and_small_features_have_the_owners_of_others(scale):
    X, Y = planted(n_samples=400)
    Y1, Y2 = random_groups(Y, 4, 0)
    power = np.float32(2.0 ** round(np.log2(scale)))
    for method in METHODS:
        again = impute(sp.csr_matrix(X * power), Y1, Y2, method)
        n_others = (labels_of_planted(method) != again.labels).nnz
        assert n_others <= (0 if scale > 1e-35 else 5)  # 1e-38: values lose digits
        check_owners(X, Y1, Y2, again)


def test_a_threshold_is_heard_where_nothing_can_be_set_aside():
    X, Y1, Y2 = EDGES["one group"]
    everyone = impute(X, Y1, Y2, "discriminative", threshold=0.0)
    assert everyone.labels.nnz == spread_labels(Y1, Y2).nnz
    assert impute(X, Y1, Y2, "discriminative", threshold=1.0).labels.nnz == Y2.nnz


@pytest.mark.parametrize(
    "options",
    [
        {"threshold": np.nan}, {"threshold": -0.1}, {"threshold": 1.1}, {"threshold": "half"}, {"ridge": np.nan},
        {"ridge": -1.0}, {"ridge": np.inf}, {"rounds": 0}, {"rounds": 1.5}, {"rank": 0}, {"rank": -2}, {"threads": 0},
    ],
)  # fmt: skip
def test_options_out_of_range_are_refused(options):
    (name,) = options
    with pytest.raises(ConfigError, match=f"`{name}`"):
        impute(*EDGES["two groups"], "discriminative", **options)


def test_threads_of_blas_and_of_xpipe_change_no_byte():
    from threadpoolctl import threadpool_limits

    X, Y = planted(n_samples=900, n_features=300)
    Y1, Y2 = random_groups(Y, 5, 0)
    found = set()
    for blas in (1, 2, 4):
        with threadpool_limits(blas):
            found |= {bytes_of(impute(X, Y1, Y2, "auto", threads=threads)) for threads in (1, 3)}
    assert len(found) == 1
