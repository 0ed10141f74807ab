from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.heads import oracles
from xpipe.errors import ConfigError, DataError, StageError
from xpipe.heads import LML, lml, lml_projection

logits = st.one_of(
    st.floats(-20, 20),
    st.floats(-1e-8, 1e-8),
    st.sampled_from([0.0, 3.0, -7.0, 1e6, -1e6, 1e30, -1e30, 1e15, 1e15 + 1]),
)
rows = hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12), elements=logits)


def check_row(y: np.ndarray, x: np.ndarray, k: int, tolerance: float) -> None:
    np.testing.assert_allclose(y, oracles.lml_projection(x, k), atol=tolerance)
    # float32 probabilities are rounded themselves: their sum is as near as a share of k
    allowed = 1e-6 * (min(k, len(x)) if y.dtype == np.float32 else 1)
    assert abs(y.sum(dtype=np.float64) - min(k, len(x))) <= allowed
    order = np.argsort(x, kind="stable")
    assert (np.diff(y[order]) >= -tolerance).all()


@settings(max_examples=300, deadline=None)
@given(rows, st.integers(1, 13))
def test_is_that_of_a_plain_root_finder(x, k):
    y = lml_projection(torch.from_numpy(x), k).numpy()
    for own, row in zip(y, x, strict=True):
        check_row(own, row, k, 1e-9)


@settings(max_examples=200, deadline=None)
@given(rows, st.integers(1, 13))
def test_float32_too(x, k):
    x = x.astype(np.float32)
    y = lml_projection(torch.from_numpy(x), k)
    assert y.dtype == torch.float32
    for own, row in zip(y.numpy(), x, strict=True):
        check_row(own, row, k, 2e-6)


@pytest.mark.parametrize("k", [1, 5, 50, 900, 1999, 2000, 2500])
@pytest.mark.parametrize("scale", [0.01, 1, 5, 30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_labels(k, scale, dtype):
    torch.manual_seed(0)
    x = torch.randn(7, 2000, dtype=dtype) * scale - 3
    y = lml_projection(x, k)
    assert y.dtype == dtype
    sums = y.double().sum(1).numpy()
    np.testing.assert_allclose(sums, min(k, 2000), rtol=1e-6)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-9
    for own, row in zip(y.numpy(), x.numpy(), strict=True):
        np.testing.assert_allclose(own, oracles.lml_projection(row, k), atol=tolerance)


def test_ties_share_what_is_left():
    y = lml_projection(torch.tensor([[1e30, 2.0, 2.0, -1e30], [5.0, 5.0, 5.0, 5.0]]), 2)
    np.testing.assert_allclose(y, [[1, 0.5, 0.5, 0], [0.5, 0.5, 0.5, 0.5]], atol=1e-6)


def test_rows_far_from_zero():
    x = torch.randn(4, 300, generator=torch.Generator().manual_seed(1)) * 2
    x = (x * 1024).round() / 1024  # exact beside 4096
    np.testing.assert_allclose(lml_projection(x + 4096, 7), lml_projection(x, 7), atol=2e-6)


def test_every_label_where_k_is_all_of_them():
    x = torch.randn(3, 4, requires_grad=True)
    for k in (4, 9):
        y = lml_projection(x, k)
        assert (y == 1).all()
        assert (torch.autograd.grad(y.sum(), x)[0] == 0).all()


@pytest.mark.parametrize("k", [1, 3, 6])
def test_gradient(k):
    x = torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(k), requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: lml_projection(x, k), (x,))
    assert torch.autograd.gradcheck(lambda x: lml_projection(x.view(5, 1, 7) * 4, k), (x,))


def test_gradient_is_the_papers():
    x = torch.randn(3, 9, dtype=torch.float64, requires_grad=True)
    grad = torch.randn(3, 9, dtype=torch.float64)
    y = lml_projection(x, 4)
    found = torch.autograd.grad(y, x, grad)[0]
    y = y.detach()
    h = 1 / y + 1 / (1 - y)
    dnu = (grad / h).sum(1, keepdim=True) / (1 / h).sum(1, keepdim=True)
    torch.testing.assert_close(found, -(1 / h) * (dnu - grad))


def test_saturated_rows_do_not_move():
    x = torch.tensor([[1e30, -1e30, -1e30]], requires_grad=True)
    y = lml_projection(x, 1)
    assert y.tolist() == [[1, 0, 0]]
    assert torch.autograd.grad(y[0, 0], x)[0].tolist() == [[0, 0, 0]]


def test_layer_on_any_shape():
    x = torch.randn(2, 3, 8)
    y = LML(2)(x)
    assert y.shape == x.shape
    torch.testing.assert_close(y.sum(-1), torch.full((2, 3), 2.0))
    assert repr(LML(2)) == "LML(k=2)"
    assert lml_projection(torch.zeros(0, 5), 2).shape == (0, 5)


def test_half_precision():
    x = torch.randn(2, 50).bfloat16()
    y = lml_projection(x, 3)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), lml_projection(x.float(), 3), atol=4e-3, rtol=1e-2)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_refuses_numbers_that_are_none(bad, k):
    with pytest.raises(DataError, match="finite"):
        lml_projection(torch.tensor([[1.0, 2.0, 3.0], [0.0, bad, 1.0]]), k)


@pytest.mark.parametrize("k", [0, -1, 2.0, True, "3"])
def test_refuses_other_numbers_of_labels(k):
    with pytest.raises(ConfigError, match="`k`"):
        lml_projection(torch.zeros(1, 3), k)
    with pytest.raises(ConfigError, match="`k`"):
        LML(k)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_says_where_it_did_not_converge(monkeypatch, dtype):
    monkeypatch.setattr(lml, "BRACKETED_STEPS", 1)
    monkeypatch.setattr(lml, "STEPS", 1)
    with pytest.raises(StageError, match="did not converge"):  # 1e25: beyond float32's squares, left by the kernel
        lml_projection(torch.tensor([[1.0, 2.0, 1e25, 5.0]], dtype=dtype), 2)
