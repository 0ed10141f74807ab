"""Inverse propensities: the formula, the table of usual constants, and what cannot be."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from xpipe import metrics
from xpipe.errors import ConfigError, DataError
from xpipe.formats.catalog import PUBLISHED
from xpipe.metrics.propensity_constants import USUAL


def test_the_formula():
    found = metrics.inverse_propensity(np.array([0, 1, 10]), 1000, a=0.55, b=1.5)
    by_hand = [1 + (math.log(1000) - 1) * 2.5**0.55 * (count + 1.5) ** -0.55 for count in (0, 1, 10)]
    np.testing.assert_allclose(found, by_hand, rtol=1e-12)
    assert found[0] == pytest.approx(1 + 5.9078 * 1.6553 * 0.8001, abs=1e-3)


def test_agrees_with_napkinxc():
    peer = pytest.importorskip("napkinxc.metrics")
    Y = sp.random(50, 20, 0.2, "csr", random_state=np.random.default_rng(0))
    Y.data[:] = 1
    for a, b in {(each.a, each.b) for each in USUAL.values()}:
        ours = metrics.inverse_propensity(metrics.label_frequency(Y), 50, a=a, b=b)
        np.testing.assert_allclose(ours, peer.Jain_et_al_inverse_propensity(Y, a, b), rtol=1e-12)


def test_frequencies_count_what_is_not_zero():
    Y = sp.csr_matrix(np.array([[1, 0, 2], [1, 0, 0]], dtype=np.float32))
    assert metrics.label_frequency(Y).tolist() == [2, 0, 1]
    Y.data[0] = 0
    assert metrics.label_frequency(Y).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("name", "constants"),
    [
        ("eurlex-4k", (0.55, 1.5)),
        ("Amazon_670K", (0.6, 2.6)),
        ("WikiLSHTC-325K", (0.5, 0.4)),
        ("AmazonCat-13K", (0.55, 1.5)),
    ],
)
def test_usual_constants(name, constants):
    assert metrics.usual_propensity(name) == constants


def test_every_dataset_of_the_catalog_has_usual_constants():
    for name in PUBLISHED:
        assert metrics.usual_propensity(name).a > 0


def test_a_dataset_nobody_knows():
    with pytest.raises(ConfigError) as caught:
        metrics.usual_propensity("Amazon-680K")
    assert "did you mean Amazon-670K" in str(caught.value)
    assert "0.55 and 1.5 for other sets" in str(caught.value)


@pytest.mark.parametrize(
    ("frequency", "n_rows", "a", "kind", "words"),
    [
        ([1], 100, 0, ConfigError, "above 0"),
        ([1], 100, float("nan"), ConfigError, "above 0"),
        ([1], 2, 0.5, DataError, "2 training rows are too few"),
        ([11], 10, 0.5, DataError, "from 0 to 10"),
        ([-1], 10, 0.5, DataError, "from 0 to 10"),
        ([float("nan")], 10, 0.5, DataError, "from 0 to 10"),
        ([[1]], 10, 0.5, DataError, "one number"),
    ],
)
def test_what_cannot_be(frequency, n_rows, a, kind, words):
    with pytest.raises(kind, match=words):
        metrics.inverse_propensity(np.array(frequency), n_rows, a=a, b=1.5)
