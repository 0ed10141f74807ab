"""Layers as PyTorch has them: the verdicts are those of their numbers, and the bias that belongs to them is used."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from xpipe.argmaxability import verify
from xpipe.errors import ConfigError, DataError

torch = pytest.importorskip("torch")
Y = sp.csr_matrix([[1, 0], [1, 1], [0, 0]])


@pytest.fixture
def linear():
    """One input, two labels of opposite signs; the bias makes both at once possible, and none impossible."""
    layer = torch.nn.Linear(1, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0], [-1.0]]))
        layer.bias.copy_(torch.tensor([1.0, 1.0]))
    return layer


WITH_BIAS, WITHOUT = ["argmaxable", "argmaxable", "unargmaxable"], ["argmaxable", "unargmaxable", "unargmaxable"]


def test_a_layer_brings_its_bias(linear):
    model = torch.nn.Sequential(torch.nn.ReLU(), linear)
    assert verify(linear, Y).status.tolist() == WITH_BIAS
    assert verify(model.state_dict(), Y).status.tolist() == WITH_BIAS
    assert verify(linear.weight, Y).status.tolist() == WITHOUT
    assert verify(linear.weight, Y, linear.bias).status.tolist() == WITH_BIAS
    assert verify(torch.nn.Linear(1, 2, bias=False).requires_grad_(False), Y[:0]).status.tolist() == []


@pytest.mark.parametrize("kind", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("mode", ["sign", "argmax"])
def test_every_type_of_number(kind, mode):
    W = torch.tensor([[1.0], [0.5], [-1.0]], dtype=getattr(torch, kind))
    sets = None if mode == "argmax" else sp.csr_matrix(np.eye(3))
    expected = verify(W.double().numpy(), sets, mode=mode)
    assert verify(torch.nn.Parameter(W), sets, mode=mode).status.tolist() == expected.status.tolist()


def test_a_state_dict_with_several_matrices_needs_a_key(linear):
    state = torch.nn.Sequential(torch.nn.Linear(3, 1), linear).state_dict()
    with pytest.raises(ConfigError, match=r"2 matrices[\s\S]*key="):
        verify(state, Y)
    assert verify(state, Y, key="1.weight").status.tolist() == WITH_BIAS
    with pytest.raises(ConfigError, match=r"1\.weight"):
        verify(state, Y, key="1.weights")


def test_a_head(linear):
    heads = pytest.importorskip("xpipe.heads")
    head = heads.make_head("binary", 1, 2)
    W, bias = head.weights()
    assert verify(head, Y).status.tolist() == verify(W, Y, bias).status.tolist()


def test_mistakes(linear):
    with pytest.raises(ConfigError, match="another is given"):
        verify(linear, Y, np.zeros(2))
    with pytest.raises(ConfigError, match="state dict"):
        verify(linear, Y, key="weight")
    with pytest.raises(DataError, match="no matrix of weights"):
        verify(torch.nn.ReLU(), Y)
