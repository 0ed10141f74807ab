from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests.heads import oracles
from xpipe.errors import ConfigError
from xpipe.heads import (
    BSL,
    HEADS,
    Binary,
    LMLHead,
    Quasibinary,
    Softmax,
    Targets,
    bce_loss,
    lml_loss,
    make_head,
    softmax_loss,
)

SETS = Targets.of([[1, 4], [], [0], [2, 3]])


def test_bsl_is_two_layers_without_bias():
    head = BSL(5, 7, dim=3)
    e = torch.randn(4, 5)
    W, bias = head.weights()
    assert bias is None
    assert W.shape == (7, 3)
    np.testing.assert_allclose(head(e).detach(), head.projection(e).detach().numpy() @ W.T, atol=1e-6)
    torch.testing.assert_close(head.loss(head(e), SETS), bce_loss(head(e), SETS))
    torch.testing.assert_close(head.probabilities(e), torch.sigmoid(head(e)))
    assert repr(head).startswith("BSL(\n  in_dim=5, n_labels=7, dim=3")


def test_what_logits_mean():
    e = torch.randn(4, 5)
    for head, probabilities, loss in (
        (Binary(5, 7), torch.sigmoid, bce_loss),
        (Softmax(5, 7, 2.0), lambda z: torch.softmax(z / 2, 1), lambda z, t: softmax_loss(z, t, 2.0)),
        (LMLHead(5, 7, k=2), None, lambda z, t: lml_loss(z, t, 2)),
    ):
        z = head(e)
        torch.testing.assert_close(head.loss(z, SETS), loss(z, SETS))
        if probabilities:
            torch.testing.assert_close(head.probabilities(e), probabilities(z))
        else:
            torch.testing.assert_close(head.probabilities(e).sum(1), torch.full((4,), 2.0))
        W, bias = head.weights()
        np.testing.assert_allclose(e.numpy() @ W.T + bias, z.detach(), atol=1e-5)


def test_quasibinary_moves_its_normaliser_in_log_space():
    head = Quasibinary(5, 7, momentum=0.8)
    assert float(head.log_normaliser) == pytest.approx(math.log(7))
    z = [torch.randn(4, 7, generator=torch.Generator().manual_seed(seed)) + 300 * seed for seed in range(3)]
    log_c = [oracles.quasibinary_loss(one.double().numpy() - 300 * seed, oracles.dense(SETS, 7))[1] + 300 * seed
             for seed, one in enumerate(z)]  # fmt: skip
    head.loss(z[0], SETS)
    assert float(head.log_normaliser) == pytest.approx(log_c[0], rel=1e-6)
    head.loss(z[1], SETS)
    moved = np.logaddexp(math.log(0.8) + log_c[0], math.log(0.2) + log_c[1])
    assert float(head.log_normaliser) == pytest.approx(moved, rel=1e-6)
    head.loss(z[2], Targets.of([[]] * 4))  # says nothing about C
    head.eval()
    head.loss(z[2], SETS)
    assert float(head.log_normaliser) == pytest.approx(moved, rel=1e-6)
    assert int(head.updates) == 2


def test_quasibinary_settles_on_the_number_of_labels():
    torch.manual_seed(0)
    head, e = Quasibinary(5, 7), torch.randn(300, 5) * 3
    for own in ([[0, 1, 2]] * 300, [[4]] * 30 + [[]] * 270, [list(range(7))] * 299 + [[1]]):
        targets = [Targets.of(own[:100]), Targets.of(own[100:])]
        head.settle(lambda targets=targets: zip(head(e).split([100, 200]), targets, strict=True))
        q = head.probabilities(e).detach()
        assert q.max() == 1  # the sum is right though some are cut
        assert float(q.double().sum()) == pytest.approx(sum(len(labels) for labels in own), rel=1e-5)


def test_quasibinary_does_not_settle_on_rows_that_say_nothing():
    head = Quasibinary(5, 7)
    before = float(head.log_normaliser)
    for own in ([[]] * 4, [list(range(7))] * 4, []):
        head.settle(lambda own=own: [(torch.zeros(len(own), 7), Targets.of(own))] if own else [])
        assert float(head.log_normaliser) == before


def test_quasibinary_threshold_is_one_half():
    head = Quasibinary(5, 7)
    e = torch.randn(200, 5) * 3
    head.loss(head(e), Targets.of([[0, 1, 2]] * 200))
    q = head.probabilities(e).detach().numpy()
    assert q.min() >= 0
    assert q.max() == 1  # cut
    W, bias = head.weights()
    scores = e.double().numpy() @ W.T + bias
    sure = np.abs(scores) > 1e-5
    assert ((scores > 0) == (q > 0.5))[sure].all()
    assert (scores > 0).any()
    assert (scores < 0).any()


@pytest.mark.parametrize("momentum", [-0.1, 1.0, float("nan")])
def test_refuses_other_momenta(momentum):
    with pytest.raises(ConfigError, match="momentum"):
        Quasibinary(5, 7, momentum=momentum)


def test_refuses_other_sizes():
    for sizes in ((0, 3), (3, 0), (2.5, 3)):
        with pytest.raises(ConfigError, match="whole number"):
            Binary(*sizes)


def test_heads_say_how_their_scores_are_compared():
    """Softmax and LML probabilities stay as they are when all logits move together; the registry says the same."""
    x = torch.randn(3, 4, dtype=torch.float64)
    for layer, kind in HEADS.items():
        options = {"bsl": {"dim": 3}, "dft": {"k": 2}, "lml": {"k": 2}}.get(layer, {})
        head = make_head(layer, in_dim=4, n_labels=7, **options).to(torch.float64)
        assert head.mode == kind.mode
        if not hasattr(head, "linear") or layer == "quasibinary":
            assert head.mode == "sign"
            continue
        before = head.probabilities(x)
        with torch.no_grad():
            head.linear.bias += 1
        assert torch.allclose(head.probabilities(x), before, atol=1e-6) == (head.mode == "topk")
