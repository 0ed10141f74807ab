from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.heads import oracles
from xpipe.errors import ConfigError, DataError
from xpipe.heads import Targets, bce_loss, lml_loss, quasibinary_loss, softmax_loss, topk_entropy_loss

SETS = [[[1, 4], [], [0], [2, 3, 5, 6]], [[3], [0], [6], [2]], [[], [5], [], []]]
LOSSES = {
    "bce": (bce_loss, oracles.bce_loss),
    "softmax": (lambda z, t: softmax_loss(z, t, 0.7), lambda z, Y: oracles.softmax_loss(z, Y, 0.7)),
    **{
        f"topk {k}": (
            lambda z, t, k=k: topk_entropy_loss(z, t, k),
            lambda z, Y, k=k: oracles.topk_entropy_loss(z, Y, k),
        )
        for k in (1, 2, 3, 6, 7, 9)
    },
    **{
        f"lml {k}": (lambda z, t, k=k: lml_loss(z, t, k), lambda z, Y, k=k: oracles.lml_loss(z, Y, k))
        for k in (1, 3, 6, 7)
    },
    "quasibinary": (lambda z, t: quasibinary_loss(z, t)[0], lambda z, Y: oracles.quasibinary_loss(z, Y)[0]),
}


def some_logits(seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return 2 * torch.randn(4, 7, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("sets", SETS)
@pytest.mark.parametrize("name", LOSSES)
def test_is_that_of_the_dense_formula(name, sets):
    loss, slow = LOSSES[name]
    z, targets = some_logits(), Targets.of(sets)
    expected = slow(z.numpy(), oracles.dense(targets, 7))
    assert float(loss(z, targets)) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert float(loss(z.float(), targets)) == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("sets", SETS)
@pytest.mark.parametrize("name", LOSSES)
def test_gradient(name, sets):
    z = some_logits(1).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: LOSSES[name][0](z, Targets.of(sets)), (z,))


def uncertain(sets, seed=0) -> Targets:
    return with_chances(sets, torch.rand(sum(map(len, sets)), generator=torch.Generator().manual_seed(seed)))


def with_chances(sets, chances) -> Targets:
    return Targets(*Targets.of(sets)[:2], chances)


@pytest.mark.parametrize("sets", SETS)
@pytest.mark.parametrize("name", LOSSES)
def test_chances_of_targets(name, sets):
    loss, slow = LOSSES[name]
    z, targets = some_logits(), uncertain(sets)
    expected = slow(z.numpy(), oracles.dense(targets, 7))
    assert float(loss(z, targets)) == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert float(loss(z.float(), targets)) == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert torch.autograd.gradcheck(lambda z: loss(z, targets), (some_logits(1).requires_grad_(),))
    certain = with_chances(sets, torch.ones(len(targets.labels)))
    assert float(loss(z, certain)) == pytest.approx(float(loss(z, Targets.of(sets))), rel=1e-12)


def test_binary_loss_is_the_one_to_expect():
    """The mean over all label sets that rows may have, each with its probability."""
    z, chances = some_logits()[:1], [0.3, 0.9, 0.5]
    total = 0.0
    for number in range(8):
        has = [bool(number >> place & 1) for place in range(3)]
        weight = np.prod([chance if own else 1 - chance for chance, own in zip(chances, has, strict=True)])
        total += weight * float(bce_loss(z, Targets.of([[place + 2 for place in range(3) if has[place]]])))
    targets = with_chances([[2, 3, 4]], torch.tensor(chances, dtype=torch.float64))
    assert float(bce_loss(z, targets)) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_huge_logits_stay_finite(name):
    z = (some_logits(2, torch.float32) * 1e4).requires_grad_()
    loss = LOSSES[name][0](z, Targets.of(SETS[0]))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(z.grad).all()


def test_plain_softmax_of_single_labels():
    z, targets = some_logits(), Targets.of(SETS[1])
    expected = torch.nn.functional.cross_entropy(z, targets.labels)
    torch.testing.assert_close(softmax_loss(z, targets), expected)
    torch.testing.assert_close(topk_entropy_loss(z, targets, 1), expected)


def test_binary_is_torchs():
    z, targets = some_logits(), Targets.of(SETS[0])
    dense = torch.from_numpy(oracles.dense(targets, 7))
    expected = torch.nn.functional.binary_cross_entropy_with_logits(z, dense, reduction="sum") / 4
    torch.testing.assert_close(bce_loss(z, targets), expected)


def test_quasibinary_without_labels():
    z, none = some_logits().requires_grad_(), Targets.of([[], [], [], []])
    loss, log_c = quasibinary_loss(z, none, 0.5)
    assert float(log_c) == 0.5
    torch.testing.assert_close(loss, (z - 0.5).clamp(min=0).sum() / 4)
    assert torch.autograd.gradcheck(lambda z: quasibinary_loss(z, none, 0.5)[0], (z,))
    _, log_c = quasibinary_loss(z, none)
    torch.testing.assert_close(log_c, torch.logsumexp(z.detach().flatten(), 0) - np.log(4))


def test_quasibinary_normaliser():
    z, targets = some_logits(), Targets.of(SETS[0])
    _, log_c = quasibinary_loss(z, targets, 99.0)
    assert float(log_c) == pytest.approx(oracles.quasibinary_loss(z.numpy(), oracles.dense(targets, 7))[1])
    _, log_c = quasibinary_loss(z + 5000, targets)
    assert float(log_c) == pytest.approx(oracles.quasibinary_loss(z.numpy(), oracles.dense(targets, 7))[1] + 5000)


def test_refuses_what_does_not_fit():
    z = some_logits()
    with pytest.raises(DataError, match="3 label sets"):
        bce_loss(z, Targets.of([[], [], []]))
    with pytest.raises(DataError, match=r"outside 0\.\.6"):
        bce_loss(z, Targets.of([[7], [], [], []]))
    for temperature in (0, -1, float("nan")):
        with pytest.raises(ConfigError, match="temperature"):
            softmax_loss(z, Targets.of(SETS[0]), temperature)
    with pytest.raises(ConfigError, match="`k`"):
        topk_entropy_loss(z, Targets.of(SETS[0]), 0)


def test_empty_batch():
    for loss, _ in LOSSES.values():
        z = torch.zeros(0, 7)
        if loss is LOSSES["quasibinary"][0]:
            continue  # its normaliser is that of a batch with rows
        assert float(loss(z, Targets.of([]))) == 0
