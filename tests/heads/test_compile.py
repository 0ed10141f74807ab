"""Heads in torch.compile: the same logits, losses and gradients, without a break in the graph of the layer."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from xpipe.heads import HEADS, Targets, make_head  # noqa: E402

OPTIONS = {"bsl": {"dim": 3}, "dft": {"k": 2, "slack": 2}, "lml": {"k": 3}}


@pytest.mark.parametrize("layer", [*HEADS])
def test_a_compiled_head_is_the_same_head(layer):
    torch.manual_seed(0)
    torch._dynamo.reset()
    head, x = make_head(layer, 4, 9, **OPTIONS.get(layer, {})), torch.randn(3, 4)
    targets = Targets.of([[1, 8], [], [0]])
    found = []
    for call in (head, torch.compile(head, backend="eager", fullgraph=True)):
        head.zero_grad()
        logits = call(x)
        loss = head.loss(logits, targets)
        loss.backward()
        found.append([logits.detach(), loss.detach(), *(weight.grad.clone() for weight in head.parameters())])
    for plain, compiled in zip(*found, strict=True):
        assert torch.allclose(plain, compiled, atol=1e-6)
