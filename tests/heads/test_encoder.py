"""SparseEncoder against the plain dense computation, forward and backward."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.heads.datasets import make_rows
from xpipe.errors import ConfigError
from xpipe.heads.batch import Batch
from xpipe.heads.encoder import SparseEncoder, WeightedSum, sum_by_index, sum_by_scipy, unit_rows
from xpipe.heads.targets import Targets


def batch_of(X, Y=None):
    parts = [torch.from_numpy(array.astype(kind)) for array, kind in
             ((X.indptr, np.int64), (X.indices, np.int64), (X.data, np.float32))]  # fmt: skip
    labels = Targets.of([row.indices.tolist() for row in Y] if Y is not None else [[]] * X.shape[0])
    return Batch(torch.arange(X.shape[0]), *parts, labels)


@pytest.mark.parametrize("hidden", [None, 5])
@pytest.mark.parametrize("normalize", [True, False])
def test_it_is_the_dense_product(hidden, normalize):
    X, _ = make_rows(20)
    X.data[X.indptr[3] : X.indptr[4]] = 0  # a row of zeros has no direction
    encoder = SparseEncoder(X.shape[1], 8, hidden, normalize=normalize)
    torch.nn.init.normal_(encoder.bias)
    dense = torch.from_numpy(X.toarray())
    if normalize:
        norms = dense.norm(dim=1, keepdim=True)
        dense = torch.where(norms > 0, dense / norms, 0.0)
    expected = torch.relu(dense @ encoder.vectors + encoder.bias)
    if hidden:
        expected = torch.relu(encoder.second(expected))
    found = encoder(batch_of(X))
    torch.testing.assert_close(found, expected)
    assert found.shape == (20, encoder.out_dim)
    pull = torch.randn_like(found)
    wanted = torch.autograd.grad((expected * pull).sum(), [encoder.vectors, encoder.bias])
    for gradient, other in zip(torch.autograd.grad((found * pull).sum(), [encoder.vectors, encoder.bias]), wanted,
                               strict=True):  # fmt: skip
        torch.testing.assert_close(gradient, other)


def test_gradients_are_exact():
    offsets, indices = torch.tensor([0, 2, 2, 5]), torch.tensor([0, 3, 1, 1, 2])  # an empty row, an index twice
    values = torch.tensor([0.5, -1.0, 2.0, 1.5, 0.25], dtype=torch.float64)
    vectors = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda V: WeightedSum.apply(V, offsets, indices, values), [vectors])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_ways_back_agree(dtype):
    X, _ = make_rows(30)
    batch = batch_of(X)
    arguments = X.shape[1], batch.offsets, batch.indices, batch.values, torch.randn(30, 5, dtype=dtype)
    torch.testing.assert_close(sum_by_scipy(*arguments), sum_by_index(*arguments))
    assert sum_by_scipy(*arguments).dtype == dtype


def test_rows_get_length_one():
    found = unit_rows(torch.tensor([0, 2, 2, 4]), torch.tensor([3.0, 4.0, 0.0, 0.0]))
    torch.testing.assert_close(found, torch.tensor([0.6, 0.8, 0.0, 0.0]))


def test_dropout_only_in_training():
    X, _ = make_rows(20)
    encoder = SparseEncoder(X.shape[1], 64, dropout=0.5)
    trained, quiet = encoder(batch_of(X)), encoder.eval()(batch_of(X))
    assert (trained == 0).float().mean() > (quiet == 0).float().mean() + 0.1


def test_options_build_it_again():
    encoder = SparseEncoder(7, 4, 3, normalize=False, dropout=0.25)
    assert SparseEncoder(**encoder.options()).options() == encoder.options()
    assert "n_features=7" in repr(encoder)


@pytest.mark.parametrize("options", [{"width": 0}, {"width": 4, "hidden": 0}, {"width": 4, "dropout": 1.0}])
def test_mistakes(options):
    with pytest.raises(ConfigError, match=list(options)[-1]):
        SparseEncoder(5, **options)
