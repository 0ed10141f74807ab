"""Regions of near rows: what they prove is true, they settle what the plain way settles, and memory has a limit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from xpipe.argmaxability import check, evidence, lifted, prepare_rows, regions, stored_rows, verify
from xpipe.argmaxability.memory import threads_within
from xpipe.argmaxability.separation_bounds import point_bounds
from xpipe.errors import ConfigError, ResourceError


def clustered(n_clusters=12, per=20, d=24, seed=0):
    """Unit rows around centres; every tenth is equal to the next one, so neither is ever ahead."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((n_clusters, 1, d)) + 0.5 * rng.standard_normal((n_clusters, per, d))
    W /= np.linalg.norm(W, axis=2, keepdims=True)
    W[:, ::10] = W[:, 1::10]
    return rng.permutation(W.reshape(-1, d)).astype(np.float32)


@pytest.fixture
def small(monkeypatch):
    """Sizes at which weights are many, small enough for tests."""
    monkeypatch.setattr(evidence, "SMALL", 10)
    monkeypatch.setattr(lifted, "CACHED", 10)
    monkeypatch.setattr(stored_rows, "BLOCK", 1000)
    monkeypatch.setattr(regions, "ROWS_PER_REGION", 12)


@pytest.mark.parametrize(("with_bias", "inputs"), [(False, "any"), (True, "any"), (False, "nonnegative")])
def test_verdicts_are_those_of_the_plain_way(small, monkeypatch, with_bias, inputs):
    W = clustered()
    bias = np.random.default_rng(1).standard_normal(len(W)) * 0.01 if with_bias else None
    settled = []
    prove = regions.Regions.prove

    def count(*given):
        found = prove(*given)
        settled.append(0 if found is None else int((found > 0).sum()))
        return found

    monkeypatch.setattr(regions.Regions, "prove", count)
    found = verify(W, bias=bias, mode="argmax", inputs=inputs)
    assert sum(settled) > len(W) / 3
    settled.clear()
    plain = verify(W, sp.identity(len(W), format="csr"), bias, mode="argmax", inputs=inputs)
    assert not settled  # only where all labels are asked about
    assert set(plain.status) == {"argmaxable", "unargmaxable"}
    assert (found.codes == plain.codes).all()
    assert check(W, None, found, bias).all()


def test_no_region_proves_more_than_its_rows(small, monkeypatch):
    """Any points: the proved radius is at most the one that products with all rows prove in float64."""
    monkeypatch.setattr(regions, "FEW_ENOUGH", 1.0)
    W = clustered(seed=2)
    W[5] *= 3.0
    bias = np.random.default_rng(1).standard_normal(len(W))
    layer = prepare_rows(W, bias, every_label=True)
    rng = np.random.default_rng(0)
    labels = np.arange(len(W))
    points = (W + 0.1 * rng.standard_normal(W.shape)) * 1e3
    proved = layer.regions.prove(labels, points, layer.largest, 1.0)
    indptr = np.arange(len(W) + 1)
    true = point_bounds(layer.rows, bias, layer.largest, indptr, labels, points, 1e5, -1.0)
    assert 5 < (proved > 0).sum() < len(W)
    assert (proved <= true).all()
    assert (proved[true < 1] == 0).all()


def test_every_row_is_in_its_region(small):
    W = clustered(seed=3)
    W[7] = 0.0
    W[9] = -40.0 * W[8]
    found = prepare_rows(W, every_label=True).regions
    assert sorted([*found.members, *found.loose]) == list(range(len(W)))
    for region, centre in enumerate(found.centres.astype(float)):
        own = W[found.members[found.ptr[region] : found.ptr[region + 1]]].astype(float)
        assert np.linalg.norm(own - centre, axis=1).max() <= found.radii[region]
    scattered = np.random.default_rng(0).standard_normal((300, 60)).astype(np.float32)
    assert prepare_rows(scattered, every_label=True).regions is None  # no centre is near: they would not pay


def test_a_memory_limit_bounds_the_threads():
    layer = prepare_rows(np.ones((2000, 30), np.float32))
    most = threads_within("64GiB", layer, 128, 500, 8)
    some = threads_within("2GiB", layer, 128, 500, 8)
    assert most == 8 > some >= 1
    with pytest.raises(ResourceError, match="not enough") as error:
        threads_within("100MiB", layer, 128, 500, 8)
    assert "on one thread" in str(error.value)
    for wrong in ("lots", 0, "-1GiB"):
        with pytest.raises(ConfigError, match="memory_limit"):
            verify(np.eye(3), mode="argmax", memory_limit=wrong)
