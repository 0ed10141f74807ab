"""The lines that run on a GPU, run here with a stand-in for cupy: points are proved, verdicts stay the same."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import scipy.sparse as sp

from tests.argmaxability.oracles import as_rows
from tests.array_module import array_module
from xpipe.argmaxability import _cupy, check, prepare_layer, verify
from xpipe.argmaxability import block as blocks

DEVICE = SimpleNamespace(name="gpu", array_module=array_module)


def wide_regions(n=200, d=12, n_sets=40, seed=0):
    """Weights and sets of which most are argmaxable with room to spare, and some are not at all."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((n, d))
    W[:, 0] -= 4
    sets = [np.argsort(-(W @ x))[:4] for x in rng.standard_normal((n_sets, d)) + np.eye(d)[0]]
    return W, as_rows([*sets, *(rng.choice(n, 10, replace=False) for _ in range(10))], n)


def test_points_have_the_signs():
    W, Y = wide_regions()
    layer = prepare_layer(W)
    points = _cupy.find_points(
        array_module, layer.directions, Y.indptr.astype(np.int64), Y.indices.astype(np.int64), 1e-4
    )
    found = ~np.isnan(points[:, 0])
    truth = verify(W, Y)
    assert found.sum() >= 0.9 * truth.argmaxable.sum() > 20
    assert not found[~truth.argmaxable].any()
    assert (np.abs(points[found]).max(axis=1) <= 1 + 1e-6).all()
    assert ((points[found] @ W.T > 0) == (Y.toarray()[found] > 0)).all()


def test_batches_do_not_matter(monkeypatch):
    W, Y = wide_regions()
    layer = prepare_layer(W)
    arguments = (array_module, layer.directions, Y.indptr.astype(np.int64), Y.indices.astype(np.int64), 1e-4)
    whole = _cupy.find_points(*arguments)
    monkeypatch.setattr(_cupy, "SCORES", 7 * 200)
    np.testing.assert_allclose(_cupy.find_points(*arguments), whole, atol=1e-2)


def test_verdicts_are_those_of_the_cpu_and_need_fewer_searches(monkeypatch):
    W, Y = wide_regions()
    plain = verify(W, Y)
    searched = []
    run = blocks.run_rounds
    monkeypatch.setattr(
        blocks, "run_rounds", lambda layer, searches: (searched.append(len(searches)), run(layer, searches))
    )
    helped = verify(W, Y, backend=DEVICE)
    assert (helped.codes == plain.codes).all()
    assert check(W, Y, helped).all()
    assert sum(searched) <= len(plain) - 0.9 * plain.argmaxable.sum()


def test_exact_radii_and_biases_are_left_to_the_cpu(monkeypatch):
    W, Y = wide_regions(n_sets=5)
    monkeypatch.setattr(_cupy, "find_points", None)
    assert (verify(W, Y, radius="exact", backend=DEVICE).codes == verify(W, Y).codes).all()
    assert len(verify(W, Y, np.ones(200), backend=DEVICE)) == Y.shape[0]
    W[3] = 0
    assert (verify(W, sp.csr_matrix(Y[:2]), backend=DEVICE).status == "unargmaxable").all()
