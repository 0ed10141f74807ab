from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from xpipe.argmaxability import check, dft_matrix, verify
from xpipe.errors import ConfigError
from xpipe.heads import DFT, Targets, dft_routes

SIZES = [(7, 3), (8, 3), (50, 4), (101, 8), (8921, 5), (20000, 30), (10007, 20)]


@pytest.mark.parametrize("route", ["auto", "fft", "dense", "blocks"])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize(("n", "k"), SIZES)
def test_logits_are_those_of_the_matrix(n, k, ordered, route):
    torch.manual_seed(0)
    order = np.random.default_rng(0).permutation(n) if ordered else None
    head = DFT(4, n, k, slack=3, label_order=order, route=route)
    e = torch.randn(3, 4)
    x = head.projection(e).detach().double().numpy()
    W = dft_matrix(n, k)
    expected = x[:, : 2 * k + 1] @ W.T
    if ordered:
        expected[:, order] = expected.copy()
    expected += x[:, 2 * k + 1 :] @ head.slack_weight.detach().double().numpy().T
    np.testing.assert_allclose(head(e).detach(), expected, atol=1e-5)
    stated, bias = head.weights()
    assert bias is None
    assert stated.shape == (n, 2 * k + 1 + 3)
    np.testing.assert_allclose(x @ stated.T, expected, atol=1e-9)
    np.testing.assert_allclose(head.double()(e.double()).detach(), x @ stated.T, atol=1e-5)


@pytest.mark.parametrize("route", ["fft", "dense", "blocks"])
@pytest.mark.parametrize(("n", "k"), [(9, 4), (10, 3), (8200, 2)])
def test_gradient_of_every_route(n, k, route):
    torch.manual_seed(0)
    head = DFT(2, n, k, slack=1, route=route).double()
    e = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)
    pull = torch.randn(2, n, dtype=torch.float64)
    (found,) = torch.autograd.grad((head(e) * pull).sum(), e)
    W, _ = head.weights()
    np.testing.assert_allclose(found, pull.numpy() @ W @ head.projection.weight.detach().numpy(), atol=1e-9)


def test_double_is_made_anew():
    head = DFT(3, 9000, 4, route="blocks").double()
    e = torch.randn(2, 3, dtype=torch.float64)
    x = head.projection(e).detach().numpy()
    np.testing.assert_allclose(head(e).detach(), x @ dft_matrix(9000, 4).T, atol=1e-12)
    half = DFT(3, 9000, 4, route="dense").bfloat16()
    assert half.matrix.dtype == torch.float32
    assert torch.isfinite(half(e.bfloat16())).all()


@pytest.mark.parametrize(("n", "k"), [(20, 2), (4000, 25)])
def test_starts_at_k_of_n(n, k):
    torch.manual_seed(0)
    head = DFT(30, n, k, slack=10)
    np.testing.assert_allclose(head.probabilities(torch.zeros(1, 30)).detach(), k / n, rtol=1e-4)
    bias = head.projection.bias.detach()
    assert float(bias[0]) == pytest.approx(np.sqrt(n) * np.log(k / (n - k)))
    assert (bias[1:] == 0).all()


@pytest.mark.parametrize("slack", [0, 4])
def test_a_trained_head_still_predicts_every_small_set(slack):
    torch.manual_seed(3)
    n, k = 9, 2
    head = DFT(6, n, k, slack=slack, label_order=np.random.default_rng(1).permutation(n))
    e = torch.randn(64, 6)
    targets = Targets.of([[i % n, (i * 5 + 3) % n] if i % n != (i * 5 + 3) % n else [i % n] for i in range(64)])
    optimiser = torch.optim.AdamW(head.parameters(), lr=0.05)
    losses = []
    for _ in range(30):
        optimiser.zero_grad()
        losses.append(head.loss(head(e), targets))
        losses[-1].backward()
        optimiser.step()
    assert losses[-1] < losses[0]
    sets = [labels for size in range(k + 1) for labels in itertools.combinations(range(n), size)]
    Y = sp.csr_matrix(np.array([[label in labels for label in range(n)] for labels in sets], dtype=np.float32))
    W, bias = head.weights()
    verdicts = verify(W, Y, bias, radius="exact", threads=1)
    assert verdicts.argmaxable.all()
    assert check(W, Y, verdicts).all()


def test_routes_by_size():
    huge = 1 << 40
    assert dft_routes.product_route(8921, 8, huge) == "dense"
    assert dft_routes.product_route(1_000_000, 8, huge) == "dense"
    assert dft_routes.product_route(1_000_000, 8, 1 << 20) == "blocks"
    assert dft_routes.product_route(1_000_000, 80, huge) == "blocks"
    assert dft_routes.choose_route(100_000, 80, 32, "blocks") == "fft"
    assert dft_routes.choose_route(100_003, 80, 32, "blocks") == "blocks"  # a prime
    assert dft_routes.choose_route(100_000, 20, 32, "blocks") == "blocks"
    assert [dft_routes.largest_prime(n) for n in (1, 2, 8, 15, 8921, 97)] == [1, 2, 2, 5, 811, 97]
    for n in (5, 8192, 8193, 100_000, 100_003, 1_000_000):
        rows = dft_routes.block_rows(n)
        assert rows == n or dft_routes.BLOCK[0] <= rows <= dft_routes.BLOCK[1]


def test_refuses_what_there_is_not():
    for options in ({"k": 5}, {"k": 0}, {"k": 2, "slack": -1}, {"k": 2, "route": "fast"}):
        with pytest.raises(ConfigError):
            DFT(3, 10, **options)
    for order in ([0, 1, 2], [0] * 10, np.arange(10) / 1):
        with pytest.raises(ConfigError, match="label_order"):
            DFT(3, 10, 2, label_order=order)
