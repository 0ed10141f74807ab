"""Verdicts against enumeration, Cover's count and the full LP, on weights of many kinds."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import scipy.sparse as sp

from tests.argmaxability.oracles import all_sets, argmaxable_sets, as_rows, full_lp
from xpipe.argmaxability import (
    SETS_PER_BLOCK,
    Verdicts,
    check,
    count_argmaxable,
    distinct_sets,
    prepare_layer,
    sharp,
    verify,
    verify_chunk,
)
from xpipe.argmaxability import block as blocks
from xpipe.argmaxability import search as searching
from xpipe.argmaxability.chebyshev import ChebyshevSearch
from xpipe.argmaxability.nearest import NearestSearch
from xpipe.argmaxability.sharp import SharpSearch
from xpipe.errors import ConfigError, DataError


def weights(kind: str, n: int, d: int, seed: int = 0):
    """(W, bias) of a kind."""
    rng = np.random.default_rng([seed, n, d])
    W = rng.standard_normal((n, d))
    if kind == "gaussian":
        return W, None
    if kind == "trained":  # a common negative direction, and rows of very different lengths
        W[:, 0] -= 2
        return W * np.exp(3 * rng.standard_normal((n, 1))), None
    if kind == "whole numbers":  # many rows parallel, opposite or in special position
        W = rng.integers(-2, 3, (n, d)).astype(float)
        W[~W.any(axis=1)] = 1
        return W, None
    if kind == "duplicates":
        W[n // 2 :] = W[: n - n // 2]
        return W, None
    if kind == "opposites":
        W[n // 2 :] = -3.7 * W[: n - n // 2]
        return W, None
    if kind == "low rank":
        return rng.standard_normal((n, max(1, d - 1))) @ rng.standard_normal((max(1, d - 1), d)), None
    if kind == "bias":
        return W, rng.standard_normal(n)
    assert kind == "whole numbers and bias"
    return rng.integers(-2, 3, (n, d)).astype(float) + 0.0, rng.integers(-2, 3, n) + 0.5


KINDS = (
    "gaussian",
    "trained",
    "whole numbers",
    "duplicates",
    "opposites",
    "low rank",
    "bias",
    "whole numbers and bias",
)


# how many sets are argmaxable: Cover's formula for what the rows really are
COVER = {
    "gaussian": count_argmaxable,
    "trained": count_argmaxable,
    "duplicates": lambda n, d: count_argmaxable(max(n // 2, n - n // 2), d),
    "opposites": lambda n, d: count_argmaxable(max(n // 2, n - n // 2), d),
    "low rank": lambda n, d: count_argmaxable(n, max(1, d - 1)),
    "bias": lambda n, d: sum(math.comb(n, i) for i in range(d + 1)),  # cells of n planes that share no point
}


def sets_of(verdicts, Y) -> set:
    rows = np.flatnonzero(verdicts.argmaxable)
    return {tuple(Y.indices[Y.indptr[row] : Y.indptr[row + 1]].tolist()) for row in rows}


@pytest.mark.parametrize("radius", ["bounds", "exact"])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (3, 1), (3, 3), (2, 4), (6, 3), (7, 4), (8, 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_all_sets_of_few_labels_are_those_of_enumeration(kind, n, d, radius):
    W, bias = weights(kind, n, d)
    Y = all_sets(n)
    verdicts = verify(W, Y, bias, radius=radius)
    assert (verdicts.status != "undecided").all()
    assert (verdicts.one_argmaxable != "undecided").all()
    assert check(W, Y, verdicts, bias).all()
    assert sets_of(verdicts, Y) == argmaxable_sets(W, bias)
    if kind in COVER:
        assert verdicts.argmaxable.sum() == COVER[kind](n, d)


@pytest.mark.parametrize("d", [3, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_all_sets_of_ten_labels(kind, d):
    test_all_sets_of_few_labels_are_those_of_enumeration(kind, 10, d, "bounds")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "d", "box"), [(40, 6, 1e4), (150, 12, 1e4), (150, 12, 3.0)])
def test_verdicts_and_exact_radii_are_those_of_the_full_lp(kind, n, d, box):
    W, bias = weights(kind, n, d)
    rng = np.random.default_rng(5)
    scores = rng.standard_normal((12, d)) @ W.T + (0 if bias is None else bias)
    seen = [np.flatnonzero(row > 0) for row in scores]
    nearby = [np.setxor1d(labels, rng.choice(n, 1)) for labels in seen]  # one sign changed: small radii, or none
    Y = as_rows([*seen, *nearby, *[rng.choice(n, 5, replace=False) for _ in range(6)]], n)
    bounds = verify(W, Y, bias, box=box)
    exact = verify(W, Y, bias, radius="exact", box=box)
    assert check(W, Y, bounds, bias).all()
    assert check(W, Y, exact, bias).all()
    for row in range(Y.shape[0]):
        labels = Y.indices[Y.indptr[row] : Y.indptr[row + 1]]
        radius = full_lp(W, labels, bias, box)
        zeros = ~W.any(axis=1)
        if zeros.any():  # the LP does not see labels that have no say
            signs = np.where(np.isin(np.flatnonzero(zeros), labels), 1, -1)
            if (signs * bias[zeros] <= 0).any():
                radius = -np.inf
        for verdicts in (bounds, exact):
            assert verdicts.argmaxable[row] == (radius > 1e-8)
            assert verdicts.one_argmaxable[row] == ("yes" if radius >= 1 else "no")
            assert verdicts.radius_lower[row] <= max(radius, 0) * (1 + 1e-6) + 1e-9
            assert verdicts.radius_upper[row] >= radius * (1 - 1e-6) - 1e-9
        if radius > 1e-8:
            np.testing.assert_allclose(exact.radius_lower[row], radius, rtol=1e-6, atol=1e-7)
            assert exact.radius_upper[row] - exact.radius_lower[row] <= 1e-6 * radius + 1e-8


def test_larger_layers_agree_with_the_full_lp():
    rng = np.random.default_rng(3)
    n, d = 900, 30
    for shift in (0.0, -1.5):
        W = rng.standard_normal((n, d))
        W[:, 0] += shift * 5
        x = rng.standard_normal((6, d)) + np.eye(d)[0]
        Y = as_rows(
            [*(np.argsort(-(W @ row))[:7] for row in x), *(rng.choice(n, 9, replace=False) for _ in range(3))], n
        )
        verdicts = verify(W, Y, radius="exact")
        radii = [full_lp(W, Y.indices[Y.indptr[row] : Y.indptr[row + 1]]) for row in range(Y.shape[0])]
        assert (verdicts.argmaxable == (np.array(radii) > 1e-8)).all()
        found = verdicts.argmaxable
        np.testing.assert_allclose(verdicts.radius_lower[found], np.array(radii)[found], rtol=1e-6)
    assert found.any()
    assert not found.all()


@pytest.mark.parametrize("has_bias", [False, True])
def test_sets_of_very_many_labels(has_bias):
    """More positives than working rows: they must not all be taken in, and none be forgotten."""
    n, d = 400, 3
    W, bias = weights("bias", n, d)
    bias = bias if has_bias else None
    x = np.random.default_rng(0).standard_normal((20, d))
    Y = sp.csr_matrix((x @ W.T + (0 if bias is None else bias) > 0).astype(np.float32))
    spoiled_sets = Y.toarray()
    spoiled_sets[:, np.abs(W).sum(axis=1).argmax()] = 1 - spoiled_sets[:, np.abs(W).sum(axis=1).argmax()]
    assert np.diff(Y.indptr).max() > searching.first_rows(d)
    verdicts = verify(W, sp.vstack([Y, sp.csr_matrix(spoiled_sets)], format="csr"), bias)
    assert verdicts.argmaxable[:20].all()
    assert (verdicts.status[20:] == "unargmaxable").sum() >= 18


def test_radii_below_one_are_settled_in_bounds_mode():
    """Whatever is small in the box of 1 must be proved to be below 1, which only multipliers of the LP can."""
    W, _ = weights("trained", 60, 5)
    x = np.random.default_rng(0).standard_normal((40, 5))
    Y = sp.csr_matrix((x @ W.T > 0).astype(np.float32))
    verdicts = verify(W, Y, box=1.0)
    assert verdicts.argmaxable.all()
    assert (verdicts.one_argmaxable == "no").all()
    assert (verdicts.radius_upper < 1).all()


def test_exact_bounds_meet_and_bounds_need_not():
    W, _ = weights("gaussian", 200, 8)
    Y = sp.csr_matrix((np.random.default_rng(1).standard_normal((30, 8)) @ W.T > 0).astype(np.float32))
    exact, bounds = verify(W, Y, radius="exact"), verify(W, Y)
    assert ((exact.radius_upper - exact.radius_lower) <= 1e-6 * exact.radius_upper).all()
    assert (bounds.radius_lower <= exact.radius_upper).all()
    assert (bounds.radius_upper >= exact.radius_lower).all()
    assert (bounds.radius_upper - bounds.radius_lower > 1e-3 * bounds.radius_upper).any()


def test_float32_weights_are_taken_as_they_are():
    W = weights("gaussian", 30, 4)[0].astype(np.float32)
    Y = sp.csr_matrix((np.random.default_rng(1).standard_normal((20, 4)) @ W.T > 0).astype(np.float32))
    from_float32, from_float64 = verify(W, Y), verify(W.astype(np.float64), Y)
    assert (from_float32.radius_lower == from_float64.radius_lower).all()
    assert check(W, Y, from_float32).all()


def test_as_many_inputs_as_labels_allow_every_set():
    W, _ = weights("gaussian", 6, 6)
    assert verify(W, all_sets(6)).argmaxable.all()
    W, _ = weights("gaussian", 5, 9)
    assert verify(W, all_sets(5), radius="exact").argmaxable.all()


def test_a_label_without_weights_has_no_sign():
    W, _ = weights("gaussian", 5, 3)
    W[2] = 0
    verdicts = verify(W, all_sets(5))
    assert (verdicts.status == "unargmaxable").all()
    assert all(verdicts.multipliers_of(row)[0].tolist() == [2] for row in range(32))
    assert check(W, all_sets(5), verdicts).all()


def test_a_label_without_weights_has_the_sign_of_its_bias():
    W, bias = weights("bias", 5, 3)
    W[2], bias[2] = 0, -0.5
    Y = all_sets(5)
    verdicts = verify(W, Y, bias)
    assert check(W, Y, verdicts, bias).all()
    assert sets_of(verdicts, Y) == argmaxable_sets(W, bias)
    assert all(2 not in labels for labels in sets_of(verdicts, Y))
    assert verdicts.argmaxable.any()


def test_equal_sets_are_solved_once(monkeypatch):
    W, _ = weights("gaussian", 20, 4)
    Y = as_rows([[1, 2], [3], [1, 2], [], [3], [3]], 20)
    sets, member = distinct_sets(Y, 20)
    assert sets.toarray().tolist() == as_rows([[1, 2], [3], []], 20).toarray().tolist()
    assert member.tolist() == [0, 1, 0, 2, 1, 1]
    told = []
    verdicts = verify(W, Y, progress=told.append)
    assert told == [3]
    assert len(verdicts) == 6
    np.testing.assert_array_equal(verdicts.points[[0, 1, 1]], verdicts.points[[2, 4, 5]])
    assert check(W, Y, verdicts).all()


def columns(verdicts: Verdicts) -> list[bytes]:
    return [np.asarray(getattr(verdicts, field.name)).tobytes() for field in dataclasses.fields(verdicts)]


@pytest.mark.parametrize("radius", ["bounds", "exact"])
def test_the_same_bytes_for_any_chunks_and_threads(radius):
    n, d = 300, 9
    W, _ = weights("trained", n, d)
    rng = np.random.default_rng(2)
    Y = sp.csr_matrix(
        (rng.standard_normal((5 * SETS_PER_BLOCK + 7, d)) @ W.T + rng.standard_normal((1, n)) > 0).astype(np.float32)
    )
    whole = verify(W, Y, radius=radius, threads=1)
    assert columns(verify(W, Y, radius=radius, threads=3)) == columns(whole)
    layer = prepare_layer(W)
    sets, member = distinct_sets(Y, n)
    for step in (SETS_PER_BLOCK, 2 * SETS_PER_BLOCK, 4 * SETS_PER_BLOCK):
        parts = [verify_chunk(layer, sets[at : at + step], radius) for at in range(0, sets.shape[0], step)]
        assert columns(Verdicts.concatenate(parts).take(member)) == columns(whole)


def test_searches_that_do_not_fit_go_one_after_the_other(monkeypatch):
    W, _ = weights("trained", 100, 6)
    Y = sp.csr_matrix((np.random.default_rng(2).standard_normal((40, 6)) @ W.T > 0).astype(np.float32))
    Y = sp.vstack([Y, as_rows([[1, 2, 3], [50]], 100)], format="csr")
    plain = verify(W, Y, radius="exact")
    together = []
    run = blocks.run_rounds
    monkeypatch.setattr(blocks, "run_rounds", lambda layer, some: (together.append(len(some)), run(layer, some)))
    monkeypatch.setattr(blocks, "ROOM", 3 * blocks.SQUARES * 8 * 36)
    grouped = verify(W, Y, radius="exact")
    assert max(together) == 3
    assert (grouped.codes == plain.codes).all()
    np.testing.assert_allclose(grouped.radius_lower, plain.radius_lower, rtol=1e-6)


def test_no_label_sets_and_empty_sets():
    W, _ = weights("gaussian", 5, 2)
    assert len(verify(W, sp.csr_matrix((0, 5), dtype=np.float32))) == 0
    W[:, 0] = np.abs(W[:, 0])
    assert verify(W, sp.csr_matrix((1, 5), dtype=np.float32)).argmaxable.all()


def nonsense(kind):
    """A search's answer replaced: a random point, and random multipliers for random labels."""

    def found(self):
        rng = np.random.default_rng(len(self.rows.positives))
        labels = np.sort(rng.choice(self.rows.layer.n_labels, 4, replace=False)).astype(np.int32)
        point = np.full(self.rows.layer.d, kind) if kind is not None else rng.standard_normal(self.rows.layer.d)
        return searching.Found(point, labels, rng.random(4))

    return found


@pytest.mark.parametrize("kind", [None, np.nan, np.inf, 0.0])
def test_what_a_search_says_is_never_a_verdict(monkeypatch, kind):
    W, _ = weights("gaussian", 8, 3)
    Y = all_sets(8)
    truth = sets_of(verify(W, Y), Y)
    monkeypatch.setattr(NearestSearch, "found", nonsense(kind))
    monkeypatch.setattr(ChebyshevSearch, "found", nonsense(kind))
    monkeypatch.setattr(
        SharpSearch, "run", lambda self: nonsense(kind)(NearestSearch(self.layer, np.arange(3), self.limits, 0))
    )
    verdicts = verify(W, Y)
    assert check(W, Y, verdicts).all()
    assert sets_of(verdicts, Y) <= truth  # a random point may be right by chance
    assert (verdicts.status == "undecided").sum() > 200
    assert not (verdicts.status == "unargmaxable").any()


def test_searches_that_end_too_early_leave_it_undecided(monkeypatch):
    W, _ = weights("gaussian", 400, 10)
    Y = as_rows([np.random.default_rng(row).choice(400, 8, replace=False) for row in range(20)], 400)
    assert (verify(W, Y).status == "unargmaxable").all()
    monkeypatch.setattr(searching, "MOST_ROUNDS", 1)
    monkeypatch.setattr(sharp, "MOST_ROUNDS", 1)
    monkeypatch.setattr(sharp, "MOST_PIVOTS", 1)
    monkeypatch.setattr(searching, "FIRST_ROWS", 0)
    monkeypatch.setattr(searching, "MORE_ROWS", 0)
    monkeypatch.setattr(searching, "FEWEST_ROWS", 2)
    verdicts = verify(W, Y)
    assert (verdicts.status == "undecided").any()
    assert not verdicts.argmaxable.any()
    assert check(W, Y, verdicts).all()


def spoiled(W, value):
    W = W.copy()
    W[1, 1] = value
    return W


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda W: spoiled(W, np.nan), "1 labels have weights that are not finite"),
        (lambda W: spoiled(W, np.inf), "not finite"),
        (lambda W: W[0], "must be a matrix"),
        (lambda W: W.astype(str), "must be a matrix"),
        (lambda W: W[:, :0], "at least one label"),
        (lambda W: W.T, "label sets of 5 labels, but weights of 2"),
        (lambda W: W * 1e200, "largest weights outside"),
        (lambda W: W * 1e-200, "largest weights outside"),
    ],
)
def test_bad_weights_are_refused(spoil, words):
    W, _ = weights("gaussian", 5, 2)
    with pytest.raises(DataError, match=words):
        verify(spoil(W), all_sets(5))


@pytest.mark.parametrize("bias", [np.zeros(4), np.array([0, 0, np.nan, 0, 0]), np.full(5, 1e300), ["a"] * 5])
def test_bad_biases_are_refused(bias):
    W, _ = weights("gaussian", 5, 2)
    with pytest.raises(DataError, match="bias"):
        verify(W, all_sets(5), bias)


def test_bad_label_sets_are_refused():
    W, _ = weights("gaussian", 5, 2)
    with pytest.raises(DataError, match="sparse matrix"):
        verify(W, np.eye(5))
    with pytest.raises(DataError, match="negative"):
        verify(W, sp.csr_matrix(-np.eye(5)))
    stored_zero = sp.csr_matrix((np.array([0.0, 1.0]), np.array([1, 2]), np.array([0, 2])), shape=(1, 5))
    assert verify(W, stored_zero).radius_lower[0] == verify(W, as_rows([[2]], 5)).radius_lower[0]


@pytest.mark.parametrize(
    "options",
    [{"eps": 0}, {"eps": np.nan}, {"eps": 2}, {"box": -1}, {"box": np.inf}, {"radius": "best"}, {"threads": 0}],
)
def test_bad_options_are_refused(options):
    W, _ = weights("gaussian", 5, 2)
    with pytest.raises(ConfigError):
        verify(W, all_sets(5), **options)
