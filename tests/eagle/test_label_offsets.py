"""Offsets of labels, against a slow search; priors, against labels that were drawn from one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from xpipe.eagle._posteriors_numba import Calibration
from xpipe.eagle.label_offsets import LabelCells, fit_offsets, fit_prior, offsets_of
from xpipe.eagle.slopes import SLOPES


def cells_of(present: np.ndarray, log_sums: np.ndarray) -> LabelCells:
    """Cells of a dense problem. present: bool [labels, groups]; log_sums: [labels, groups, powers]."""
    having, lacking = present.sum(axis=1), (~present).sum(axis=1)
    return LabelCells(
        np.concatenate([[0], np.cumsum(having)]), log_sums[present],
        np.concatenate([[0], np.cumsum(lacking)]), log_sums[~present],
    )  # fmt: skip


def test_offsets_equal_a_slow_search():
    rng = np.random.default_rng(0)
    log_sums = rng.normal(-4, 3, (30, 40))
    present = rng.random((30, 40)) < rng.uniform(0, 1, (30, 1))
    present[0], present[1] = True, False  # in all groups, in none
    expected, variance = rng.normal(2, 1, 30), 0.7
    offsets, curves, losses = fit_offsets(cells_of(present, log_sums), expected, variance)

    def loss_of(label: int, offset: float) -> float:
        hazards = np.exp(offset + log_sums[label])
        return np.where(present[label], -np.log(-np.expm1(-hazards)), hazards).sum()

    for label in range(30):

        def total(offset: float, label: int = label) -> float:
            return loss_of(label, offset) + (offset - expected[label]) ** 2 / (2 * variance)

        best = minimize_scalar(total, bounds=(-20, 20), method="bounded", options={"xatol": 1e-9})
        assert offsets[label] == pytest.approx(best.x, abs=1e-5)
        assert losses[label] == pytest.approx(loss_of(label, offsets[label]), rel=1e-6)
        step = 1e-4
        sides = loss_of(label, best.x - step) + loss_of(label, best.x + step)
        assert curves[label] == pytest.approx((sides - 2 * loss_of(label, best.x)) / step**2, rel=1e-3, abs=1e-4)


def test_the_order_of_groups_and_other_labels_change_no_byte():
    rng = np.random.default_rng(1)
    log_sums, present = rng.normal(-4, 3, (20, 50, 1)), rng.random((20, 50)) < 0.3
    calibration, order = Calibration(3.0, 2.0, -0.4, 0.5), rng.permutation(50)
    whole = offsets_of(calibration, present.sum(axis=1), cells_of(present, log_sums))
    other = offsets_of(calibration, present.sum(axis=1), cells_of(present[:, order], log_sums[:, order]))
    some = offsets_of(calibration, present[3:5].sum(axis=1), cells_of(present, log_sums).of_labels(np.array([3, 4])))
    assert whole.tobytes() == other.tobytes()
    assert whole[3:5].tobytes() == some.tobytes()


def drawn(spread: float, seed: int = 0) -> tuple[LabelCells, np.ndarray]:
    """(cells, offsets): labels drawn from a prior, with slope 2. The number of groups says nothing about the offset."""
    rng = np.random.default_rng(seed)
    offsets = rng.normal(3.5, spread, 300)
    scores = np.exp(rng.normal(-3, 1, (300, 120, 5)) - (offsets[:, None, None] - 3.5) / 2)
    present = rng.random((300, 120)) < -np.expm1(-np.exp(offsets)[:, None] * (scores**2).sum(axis=2))
    log_sums = np.stack([np.log((scores**slope).sum(axis=2)) for slope in SLOPES], axis=2)
    return cells_of(present, log_sums), offsets


@pytest.mark.parametrize("spread", [0.3, 0.8])
def test_a_prior_is_recovered_from_labels_it_made(spread):
    cells, offsets = drawn(spread)
    found, saved = fit_prior(cells)
    assert 0 < saved < 1
    assert found.slope == 2.0
    assert found.spread == pytest.approx(spread, abs=0.1)
    fitted = offsets_of(found, cells.n_groups(), cells.of_slope(2.0))
    blind = offsets_of(found._replace(spread=0.0), cells.n_groups(), None)
    assert np.sqrt(np.mean((fitted - offsets) ** 2)) < 0.8 * spread
    assert np.sqrt(np.mean((fitted - offsets) ** 2)) < np.sqrt(np.mean((blind - offsets) ** 2))


def test_scores_that_tell_nothing_have_no_prior():
    cells, _ = drawn(0.5)
    blind = cells._replace(having=np.full_like(cells.having, -3.0), lacking=np.full_like(cells.lacking, -3.0))
    found, saved = fit_prior(blind)
    assert found is None
    assert saved == pytest.approx(0, abs=1e-4)
