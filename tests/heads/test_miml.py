from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from xpipe.errors import ConfigError, DataError
from xpipe.heads import CoAttentionMIML, DeepMIML, Targets


@pytest.mark.parametrize("hidden", [None, 6])
def test_is_the_formula(hidden):
    torch.manual_seed(0)
    net = DeepMIML(4, 3, concepts=2, hidden=hidden)
    bags = torch.randn(5, 7, 4)
    v1 = torch.relu(net.layers(bags)).reshape(5, 7, 2, 3)
    torch.testing.assert_close(net(bags), v1.amax(2).amax(1) + net.bias)
    torch.testing.assert_close(net.probabilities(bags), torch.sigmoid(net(bags)))


@pytest.mark.parametrize("sizes", [None, torch.tensor([1, 7, 3, 2, 5])])
def test_without_tau_it_is_deep_miml(sizes):
    torch.manual_seed(0)
    plain = DeepMIML(4, 3, concepts=2, hidden=5)
    embedding = np.random.default_rng(0).normal(size=(3, 4))
    attentive = CoAttentionMIML(4, 3, 2, embedding, tau=0, hidden=5)
    attentive.load_state_dict({**plain.state_dict(), "embedding": attentive.embedding})
    bags = torch.randn(5, 7, 4)
    assert torch.equal(attentive(bags, sizes), plain(bags, sizes))
    torch.testing.assert_close(attentive.mask(bags), torch.ones(5, 7, 3))
    attentive.tau = 3.0
    assert not torch.allclose(attentive(bags, sizes), plain(bags, sizes))


def test_mask_is_that_of_the_paper():
    torch.manual_seed(0)
    embedding = sp.random(3, 4, 0.7, format="csr", random_state=1, dtype=np.float32)
    net = CoAttentionMIML(4, 3, 2, embedding, tau=1.5)
    bags = torch.randn(2, 6, 4)
    affinity = np.exp(1.5 * bags.numpy() @ embedding.toarray().T)
    mask = 6 * affinity / affinity.sum(1, keepdims=True)
    np.testing.assert_allclose(net.mask(bags), mask, rtol=1e-5)
    expected = (net.instance_logits(bags) * torch.from_numpy(mask)).amax(1) + net.bias
    torch.testing.assert_close(net(bags), expected)
    assert "tau=1.5" in repr(net)
    assert "embedding" in net.state_dict()


def test_bags_of_different_sizes():
    torch.manual_seed(0)
    net = CoAttentionMIML(4, 3, 2, np.random.default_rng(0).normal(size=(3, 4)), tau=2.0)
    bags = torch.randn(3, 5, 4)
    sizes = torch.tensor([2, 5, 1])
    for number, size in enumerate(sizes):
        torch.testing.assert_close(net(bags, sizes)[number], net(bags[number : number + 1, :size])[0])


def test_learns():
    torch.manual_seed(0)
    net = DeepMIML(4, 2, concepts=2, hidden=8)
    bags = torch.randn(100, 3, 4)
    targets = Targets.of([[label for label in (0, 1) if bag[:, label].max() > 1] for bag in bags])
    optimiser = torch.optim.Adam(net.parameters(), 0.02)
    losses = []
    for _ in range(60):
        optimiser.zero_grad()
        losses.append(net.loss(net(bags), targets))
        losses[-1].backward()
        optimiser.step()
    assert losses[-1] < losses[0] / 2


def test_refuses_what_does_not_fit():
    net = DeepMIML(4, 3, 2)
    with pytest.raises(DataError, match="shape"):
        net(torch.zeros(2, 4))
    with pytest.raises(DataError, match="sizes"):
        net(torch.zeros(2, 3, 4), torch.tensor([0, 3]))
    with pytest.raises(DataError, match="embedding"):
        CoAttentionMIML(4, 3, 2, np.zeros((4, 3)))
    with pytest.raises(ConfigError, match="tau"):
        CoAttentionMIML(4, 3, 2, np.zeros((3, 4)), tau=-1)


def test_no_label_dies_in_training():
    """At a high learning rate biases that start at 0 leave 5 to 8 of these labels with scores of 0 for ever."""
    torch.manual_seed(1)
    kinds = torch.eye(10)[torch.randint(10, (200, 4))]
    bags = kinds + 0.2 * torch.randn(200, 4, 10)
    truth = kinds.amax(1)
    net = DeepMIML(10, 10, 2, hidden=64)
    optimiser = torch.optim.Adam(net.parameters(), 0.03)
    for _ in range(200):
        optimiser.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(net(bags), truth).backward()
        optimiser.step()
    assert (net.instance_logits(torch.eye(10)[None])[0].diagonal() > 0.5).all()
