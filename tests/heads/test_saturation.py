"""Losses and gradients of logits up to 1e4 against exact arithmetic: nothing overflows, vanishes or turns to NaN."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests.heads import oracles
from xpipe.errors import DataError
from xpipe.heads import Targets, bce_loss, lml_loss, lml_rows, quasibinary_loss, softmax_loss, topk_entropy_loss

KINDS = {torch.float32: 1e-5, torch.float64: 1e-10}
ROUTES = [(torch.float32, True), (torch.float32, False), (torch.float64, False)]  # the type, and whether by kernels


@pytest.fixture(params=ROUTES, ids=["kernels-float32", "torch-float32", "torch-float64"])
def kind(request, monkeypatch):
    dtype, by_kernels = request.param
    if not by_kernels:
        monkeypatch.setattr(lml_rows, "fits", lambda tensor: False)
    return dtype


def differentiate(loss, x: np.ndarray, dtype: torch.dtype) -> tuple[float, np.ndarray]:
    logits = torch.tensor(x, dtype=dtype, requires_grad=True)
    found = loss(logits)
    assert found.dtype == dtype
    return float(found.detach()), torch.autograd.grad(found, logits)[0].numpy()


def check(found: tuple[float, np.ndarray], exact: tuple[float, np.ndarray], dtype: torch.dtype) -> None:
    tolerance = KINDS[dtype]
    assert abs(found[0] - exact[0]) <= tolerance * max(1, abs(exact[0]))
    np.testing.assert_allclose(found[1], exact[1], rtol=0, atol=tolerance)


def gapped(rng: np.random.Generator, n: int, k: int, gap: float, spread: float, offset: float) -> np.ndarray:
    """n logits whose first k (of some order) are `gap` above the others."""
    x = spread * rng.standard_normal(n)
    x[rng.permutation(n)[:k]] += gap
    return (x + offset).astype(np.float32).astype(np.float64)  # the same numbers for both types


@pytest.mark.parametrize("a", [0.5, 5, 12, 20, 30, 50, 90, 200, 700, 1e3, 1e4])
def test_lml_where_two_of_five_are_far_above(kind, a):
    x = [[a, a, -a, -a, -a]]
    found = differentiate(lambda x: lml_loss(x, Targets.of([[2]]), 2), x, kind)
    check((found[0], found[1][0]), oracles.exact_lml_loss(np.array(x[0]), [2], 2), kind)
    if a >= 20:
        assert found[0] == pytest.approx(a + 0.2027, abs=1e-3 + 1e-7 * a)
        np.testing.assert_allclose(found[1][0], [1 / 4, 1 / 4, -5 / 6, 1 / 6, 1 / 6], atol=1e-5)


@pytest.mark.parametrize("gap", [1, 10, 25, 40, 60, 100, 180, 500, 2e3, 1e4])
def test_lml_with_gaps_of_any_width(kind, gap):
    rng = np.random.default_rng(int(gap))
    for case in range(9):
        n = int(rng.integers(2, 14))
        k = int(rng.integers(1, n))
        x = gapped(rng, n, k, gap, float(rng.choice([0, 0.1, 1, 5])), float(rng.choice([0, 0, gap / 2, -gap, 300])))
        own = sorted(rng.permutation(n)[: rng.integers(1, n + 1)].tolist())
        k_asked = k if case % 3 else int(rng.integers(1, n))  # beside the gap, too
        found = differentiate(lambda x, own=own, k=k_asked: lml_loss(x, Targets.of([own]), k), x[None], kind)
        check((found[0], found[1][0]), oracles.exact_lml_loss(x, own, k_asked), kind)


@pytest.mark.parametrize("scale", [0.3, 3, 20, 100, 3e3])
def test_lml_of_wide_rows(kind, scale):
    rng = np.random.default_rng(int(scale * 10))
    for n, k in [(90, 1), (60, 7), (120, 50), (60, 59), (90, 85)]:
        x = (scale * rng.standard_normal(n)).astype(np.float32).astype(np.float64)
        own = sorted(rng.permutation(n)[:4].tolist())
        found = differentiate(lambda x, own=own, k=k: lml_loss(x, Targets.of([own]), k), x[None], kind)
        check((found[0], found[1][0]), oracles.exact_lml_loss(x, own, k), kind)


def test_lml_of_a_batch_of_all_sorts(kind):
    """Saturated rows among others, rows without labels, ties, equal logits: each as if it were alone."""
    rows = [[0.0, 0, 0, 0, 0], [1, 2, 3, 4, 5], [9e3, 9e3, -9e3, -9e3, 1], [7, 7, 7, -1e4, -1e4], [60, 60, 1, 0, 0],
            [-30, -30, 30, 30, 0], [1e4, 9e3, 8e3, 7e3, 6e3]]  # fmt: skip
    sets = [[0], [0, 4], [3], [2, 3], [], [0, 1, 2, 3, 4], [4]]
    x = np.array(rows)
    for k in (1, 2, 3, 4):
        exact = [oracles.exact_lml_loss(row, own, k) for row, own in zip(x, sets, strict=True)]
        found = differentiate(lambda x, k=k: lml_loss(x, Targets.of(sets), k), x, kind)
        mean = sum(loss for loss, _ in exact) / len(rows), np.array([own for _, own in exact]) / len(rows)
        check(found, mean, kind)


def test_lml_far_from_zero(kind):
    """Only differences count, also where adding nu to a logit would round it."""
    near = np.array([[20.0, 20.0, -20.0, -20.0, -21.0], [1.0, 2.0, 3.0, 2.5, 0.0]])
    sets = Targets.of([[2], [0, 1]])
    moved = near + (2.0**17 if kind == torch.float32 else 2.0**40)
    found, other = (differentiate(lambda x: lml_loss(x, sets, 2), x, kind) for x in (moved, near))
    check(found, other, kind)


def test_lml_gradients_add_up_to_nothing(kind):
    x = torch.tensor([[1e4, 0.0, -1e4, 3.0], [40.0, 40.0, -40.0, -40.0]], dtype=kind, requires_grad=True)
    lml_loss(x, Targets.of([[2], [1, 3]]), 2).backward()
    np.testing.assert_allclose(x.grad.sum(1), 0, atol=KINDS[kind])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_lml_of_narrow_types(dtype):
    rows = torch.tensor([[40.0, 40, -40, -40, -40], [1, 2, 3, 4, 5]], dtype=dtype)
    sets = Targets.of([[2], [0]])
    narrow, wide = rows.clone().requires_grad_(), rows.double().requires_grad_()
    for x in (narrow, wide):
        lml_loss(x, sets, 2).backward()
    assert narrow.grad.dtype == dtype
    np.testing.assert_allclose(narrow.grad.double(), wide.grad, atol=4e-3)


@pytest.mark.parametrize("k", [5, 6])
def test_lml_of_all_labels_is_nothing(kind, k):
    x = torch.tensor([[1e4, 0.0, -1e4, 3.0, 2.0]], dtype=kind, requires_grad=True)
    loss = lml_loss(x, Targets.of([[0, 2]]), k)
    loss.backward()
    assert float(loss.detach()) == 0
    assert (x.grad == 0).all()


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("k", [1, 3, 7])
def test_lml_refuses_numbers_that_are_none(kind, bad, k):
    x = torch.tensor([[0.0, 1, 2, 3], [1e4, -1e4, bad, 0]], dtype=kind)
    with pytest.raises(DataError, match="finite"):
        lml_loss(x, Targets.of([[0], [1]]), k)


def test_lml_of_huge_logits_stays_finite(kind):
    x = torch.tensor([[1e30, 1e30, -1e30, -1e30], [3e38, 0, -3e38, 1]], dtype=kind, requires_grad=True)
    loss = lml_loss(x, Targets.of([[2], [0]]), 2)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(
        1e30 / 2, rel=1e-5
    )  # the mean over two rows, of which one adds almost nothing
    assert torch.isfinite(x.grad).all()


SCALES = [1, 30, 90, 800, 1e4]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_the_other_losses(dtype, scale):
    rng = np.random.default_rng(int(scale))
    plain = {
        bce_loss: oracles.exact_bce_loss,
        softmax_loss: oracles.exact_softmax_loss,
    }
    for case in range(10):
        n = int(rng.integers(2, 12))
        heights = [scale, -scale, 0, scale / 2] if case % 2 else [rng.choice([scale, -scale])]  # all at one, too
        x = rng.choice(heights, n) + rng.standard_normal(n) * rng.choice([0, 1, 3])
        x = x.astype(np.float32).astype(np.float64)
        own = sorted(rng.permutation(n)[: rng.integers(0 if case else 1, n)].tolist())
        sets = Targets.of([own])
        for loss, exact in plain.items():
            found = differentiate(lambda x, loss=loss, sets=sets: loss(x, sets), x[None], dtype)
            check((found[0], found[1][0]), exact(x, own), dtype)
        k = int(rng.integers(1, n + 1))
        found = differentiate(lambda x, sets=sets, k=k: topk_entropy_loss(x, sets, k), x[None], dtype)
        value, gradient = oracles.exact_topk_entropy_loss(x, own, k)
        if len(np.unique(x)) == n:  # which of equal logits is left out is free
            check((found[0], found[1][0]), (value, gradient), dtype)
        else:
            assert abs(found[0] - value) <= KINDS[dtype] * max(1, abs(value))
            np.testing.assert_allclose(np.sort(found[1][0]), np.sort(gradient), atol=KINDS[dtype])


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_the_quasibinary_loss(dtype, scale):
    rng = np.random.default_rng(int(scale))
    for case in range(10):
        rows, n = int(rng.integers(1, 4)), int(rng.integers(2, 9))
        x = scale * rng.standard_normal((rows, n)) if case % 2 else scale + rng.standard_normal((rows, n))
        x = x.astype(np.float32).astype(np.float64)
        sets = [sorted(rng.permutation(n)[: rng.integers(1, n)].tolist()) for _ in range(rows)]
        found = differentiate(lambda x, sets=sets: quasibinary_loss(x, Targets.of(sets))[0], x, dtype)
        check(found, oracles.exact_quasibinary_loss(x, sets), dtype)
