"""The kernels of the projection against the same in torch operations, on every number of threads."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import torch

from xpipe.heads import Targets, lml, lml_loss, lml_projection, lml_rows

SHAPES = [(1, 2), (3, 7), (9, 513), (40, 3000)]


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def draw(shape, scale, seed=0):
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def by_torch(x, k):
    """y and nu of the route that other devices take, in float64."""
    return lml.solve(x.double(), k)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", [1e-3, 1, 3, 10, 40])
def test_projects_as_torch_operations_do(shape, scale):
    x = draw(shape, scale) + 2
    for k in {1, 2, shape[1] // 3, shape[1] // 2, shape[1] - 1} - {0, shape[1]}:
        y, nu, solved = lml_rows.project(x, k)
        expected, expected_nu = by_torch(x, k)
        assert solved.float().mean() >= 0.5  # the rest is for wider brackets
        np.testing.assert_allclose(y[solved], expected[solved], atol=1e-6 * max(scale, 1), rtol=1e-5 * max(scale, 1))
        np.testing.assert_allclose(y[solved].double().sum(1), k, rtol=1e-6)
        np.testing.assert_allclose(torch.sigmoid(x.double() + nu)[solved], y[solved], atol=1e-5)
        assert nu.shape == expected_nu.shape


def test_solves_all_ordinary_rows():
    for scale in (0.01, 1, 3, 10):
        for k in (1, 5, 50, 1500, 2990):
            assert lml_rows.project(draw((20, 3000), scale), k)[2].all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_those_of_torch_operations(monkeypatch, shape, dtype):
    y = torch.rand(shape, generator=torch.Generator().manual_seed(1), dtype=dtype)
    y[0] = (y[0] > 0.5).to(dtype)  # a row that does not move
    grad = draw(shape, 1, 2).to(dtype)
    found = lml_rows.pull(y, grad)
    monkeypatch.setattr(lml_rows, "fits", lambda tensor: False)
    assert found.dtype == dtype
    torch.testing.assert_close(found, lml.pull(y, grad), rtol=1e-4 if dtype == torch.float32 else 1e-10, atol=1e-6)
    assert (found[0] == 0).all()


def test_losses_are_those_of_torch_operations(monkeypatch):
    targets = Targets.of([[1, 5], [], [0], [2, 3, 700]])
    x = draw((4, 800), 3).requires_grad_()
    found = [lml_loss(x, targets, 3)]
    found.append(torch.autograd.grad(2 * found[0], x)[0])
    monkeypatch.setattr(lml_rows, "fits", lambda tensor: False)
    expected = [lml_loss(x, targets, 3)]
    expected.append(torch.autograd.grad(2 * expected[0], x)[0])
    for own, other in zip(found, expected, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-6)


def test_any_number_of_threads_gives_the_same_bits(threads):
    x, grad = draw((101, 3000), 2), draw((101, 3000), 1, 1)
    found = []
    for number in (1, 2, 3, 7):
        threads(number)
        x = x.detach().requires_grad_()
        y = lml_projection(x, 5)
        found.append((y.detach(), torch.autograd.grad(y, x, grad)[0]))
    for y, pulled in found[1:]:
        assert torch.equal(y, found[0][0])
        assert torch.equal(pulled, found[0][1])


def test_order_of_a_matrix_in_memory_does_not_matter():
    x = draw((300, 6), 2)
    assert torch.equal(lml_projection(x.T, 4), lml_projection(x.T.contiguous(), 4))
    free = x.T.clone().requires_grad_()
    lml_projection(free, 4).sum().backward()  # a gradient that is one number, repeated
    np.testing.assert_allclose(free.grad, 0, atol=1e-6)


@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e10])
def test_degenerate_rows(scale):
    x = draw((5, 100), scale)
    y = lml_projection(x, 7)
    np.testing.assert_allclose(y.double().sum(1), 7, rtol=1e-6)
    np.testing.assert_allclose(y, by_torch(x, 7)[0], atol=1e-5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_leaves_rows_that_are_not_finite(bad):
    x = draw((3, 600), 1)
    x[1, 555] = bad
    assert lml_rows.project(x, 2)[2].tolist() == [True, False, True]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_works_in_a_forked_process(threads):
    threads(2)
    x = draw((64, 3000), 1)
    expected = lml_projection(x, 3)  # its threads stay in this process
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # rather than wait for ever
        y = lml_projection(x, 3).numpy()
        os._exit(0 if np.array_equal(y, expected.numpy()) else 1)  # torch's own threads stay behind too
    assert os.waitpid(child, 0)[1] == 0
