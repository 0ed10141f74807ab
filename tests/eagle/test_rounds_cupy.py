"""The rounds of `discriminative` on the stand-in for cupy find what those on the CPU find."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from tests.array_module import DeviceArray, array_module
from tests.eagle.problems import random_problem
from tests.eagle.samples import overlapping, overlapping_alike, planted, whitened
from xpipe.eagle import device_rounds, impute
from xpipe.eagle.discriminative import find_owners
from xpipe.eagle.numbering import with_groups_in_order
from xpipe.eagle.rounds import fit_posteriors
from xpipe.eagle.spectrum import leading_directions, scaled_rows
from xpipe.eagle.whitening import whiten, whitener_of
from xpipe.grouping import given_groups, random_groups

DEVICE = SimpleNamespace(name="gpu", array_module=array_module)
RIDGE = 10.0  # rounding errors of float32 stay small under it


def several(X, Y):
    """Every sample is in three groups."""
    Y1 = sp.csr_matrix(sp.hstack([random_groups(Y, 6, seed)[0] for seed in range(3)]))
    return with_groups_in_order(*given_groups(Y1, Y))[:2]


def one_large(X, Y):
    """A group of half of the samples, and small ones."""
    numbers = np.where(np.arange(X.shape[0]) % 2, 0, np.arange(X.shape[0]) // 3 + 1)
    return given_groups(sp.csr_matrix(np.eye(numbers.max() + 1, dtype=np.float32)[numbers]), Y)


SHAPES = {
    "overlapping": lambda X, Y: overlapping(Y),  # one group is empty, some samples have no group
    "alike": lambda X, Y: overlapping_alike(X, Y, 4),
    "single": lambda X, Y: random_groups(Y, 1, 0),
    "several": several,
    "one large": one_large,
}


def beside_some(Y2):
    """Some groups that lack each label."""
    drawn = np.random.default_rng(0).random(Y2.shape) < 0.3
    return sp.csr_matrix((Y2.toarray() == 0) & drawn, dtype=np.float32)


def compare(found, expected, elsewhere=0.0):
    """All numbers agree to 1e-4, but for a share `elsewhere`, where a group rested a round earlier or later."""
    pairs = [(found.posterior.data, expected.posterior.data, 1e-4), (found.score.data, expected.score.data, 1e-4)]
    if expected.cells is not None:
        for name in ("having", "lacking"):
            pairs.append((*(np.exp(getattr(cells, name)) for cells in (found.cells, expected.cells)), 1e-3))
    for some, others, atol in pairs:
        distance = np.abs(some - others) / (1 + np.abs(others))
        assert (distance > atol).sum() <= elsewhere * distance.size
        assert distance.max(initial=0) < 50 * atol


@pytest.mark.parametrize("most_members", [None, 3])
@pytest.mark.parametrize("rounds", [1, 2, 10])
@pytest.mark.parametrize("shape", SHAPES)
def test_twins_agree(shape, rounds, most_members):
    X, Y = planted(n_samples=400)
    Y1, Y2 = SHAPES[shape](X, Y)
    rows = whitened(X, 40, RIDGE)
    options = {"rounds": rounds, "most_members": most_members}
    found, expected = (fit_posteriors(rows, Y1, Y2, **options, backend=backend) for backend in (DEVICE, None))
    compare(found, expected, elsewhere=0.01)
    options |= {"powers": np.array([0.75, 2.5]), "beside": beside_some(Y2)}  # with the tolerance of calibrated labels
    found, expected = (fit_posteriors(rows, Y1, Y2, **options, backend=backend) for backend in (DEVICE, None))
    compare(found, expected, elsewhere=0.01)


@pytest.mark.parametrize("seed", range(0, 440, 5))
def test_twins_agree_on_problems_that_have_broken_something(seed, monkeypatch):
    """Without rest: where all rows are equal, one rounding error decides about the rest of all groups."""
    monkeypatch.setattr("xpipe.eagle.rounds.TOLERANCE_ALIKE", 0.0)
    _, (X, Y1, Y2) = random_problem(seed, 20, 120)
    X = scaled_rows(X)
    spectrum = leading_directions(X, 16)
    if not spectrum.mean_square:
        pytest.skip("rows have no length")
    rows = whiten(X, whitener_of(spectrum, RIDGE))
    Y1, Y2, _ = with_groups_in_order(Y1, Y2)
    options = {"powers": np.array([1.5]), "beside": beside_some(Y2), "rounds": 6}
    compare(fit_posteriors(rows, Y1, Y2, **options, backend=DEVICE), fit_posteriors(rows, Y1, Y2, **options))


def test_nothing_on_the_device():
    X, Y = planted(n_samples=40)
    Y1, Y2 = random_groups(Y, 4, 0)
    rows, nothing = whitened(X, 8, RIDGE), sp.csr_matrix(Y2.shape, dtype=np.float32)
    assert fit_posteriors(rows, Y1, nothing, backend=DEVICE).posterior.nnz == 0
    assert fit_posteriors(rows, Y1, sp.csr_matrix(Y2[:, :0]), backend=DEVICE).score.shape == (0, 40)


def test_memory_and_other_labels_change_no_byte(monkeypatch):
    X, Y = planted(n_samples=300)
    Y1, Y2 = overlapping(Y)
    rows = whitened(X, 40, RIDGE)
    options = {"powers": np.array([1.5]), "beside": beside_some(Y2), "backend": DEVICE}
    whole = fit_posteriors(rows, Y1, Y2, **options)
    again = fit_posteriors(rows, Y1, Y2, **options)
    batches = []
    rounds = device_rounds.Rounds

    def counted(*arguments):
        batches.append(arguments[1].n_labels)
        return rounds(*arguments)

    monkeypatch.setattr(device_rounds, "Rounds", counted)
    monkeypatch.setattr(device_rounds, "BATCH_SHARE", 1e-4)
    monkeypatch.setattr(device_rounds, "VISIT_SHARE", 1e-6)
    small = fit_posteriors(rows, Y1, Y2, **options)
    assert len(batches) > 3
    assert sum(batches) == Y2.shape[1]
    for other in (again, small):
        assert other.posterior.data.tobytes() == whole.posterior.data.tobytes()
        assert other.score.data.tobytes() == whole.score.data.tobytes()
        assert other.cells.having.tobytes() == whole.cells.having.tobytes()
        assert other.cells.lacking.tobytes() == whole.cells.lacking.tobytes()
    options["beside"] = options["beside"][:, [2, 7]]
    part = fit_posteriors(rows, Y1, sp.csr_matrix(Y2[:, [2, 7]]), **options)
    assert part.posterior.data.tobytes() == whole.posterior[[2, 7]].data.tobytes()


def test_labels_of_very_many_groups_stay_on_the_cpu(monkeypatch):
    X, Y = planted(n_samples=300)
    Y1, Y2 = random_groups(Y, 4, 0)
    rows = whitened(X, 40, RIDGE)
    n_groups = np.asarray(Y2.getnnz(axis=0))
    monkeypatch.setattr(device_rounds, "MOST_STEPS", int(np.median(n_groups)))
    host, device = fit_posteriors(rows, Y1, Y2), fit_posteriors(rows, Y1, Y2, backend=DEVICE)
    compare(device, host, elsewhere=0.01)
    same = [host.score[label].data.tobytes() == device.score[label].data.tobytes() for label in range(len(n_groups))]
    assert same == (n_groups > np.median(n_groups)).tolist()


def test_the_device_is_asked_once_per_round(monkeypatch):
    """Not once per group: a question waits for all that was asked for before."""
    asked = []
    for name in ("get", "__int__", "__float__", "__bool__"):
        answer = getattr(DeviceArray, name)

        def noted(self, answer=answer):
            asked.append(1)
            return answer(self)

        monkeypatch.setattr(DeviceArray, name, noted)
    for n_samples in (200, 800):
        X, Y = planted(n_samples)
        Y1, Y2 = random_groups(Y, 4, 0)
        asked.clear()
        fit_posteriors(whitened(X, 16, RIDGE), Y1, Y2, rounds=6, backend=DEVICE)
        assert 0 < len(asked) <= 5 + 3  # rounds that change sums, and what comes back


@pytest.mark.parametrize("alike", [False, True])
def test_owners_are_those_of_the_cpu(alike):
    X, Y = planted(n_samples=500)
    Y1, Y2 = overlapping_alike(X, Y, 5) if alike else overlapping(Y)
    host, device = impute(X, Y1, Y2, "discriminative"), impute(X, Y1, Y2, "discriminative", backend=DEVICE)
    assert device.trace["choice"] == host.trace["choice"]
    assert abs(host.labels - device.labels).sum() <= 0.005 * host.labels.nnz  # near ties
    both = host.labels.multiply(device.labels).astype(bool)
    np.testing.assert_allclose(device.scores[both], host.scores[both], atol=2e-3)
    assert host.scores.data.tobytes() != device.scores.data.tobytes()  # it did run there


def test_find_owners_keeps_groups_apart_on_the_device():
    """Groups are renumbered before the rounds: what leaves them out must follow."""
    X, Y = planted(n_samples=300)
    Y1, Y2 = overlapping(Y)
    order = np.random.default_rng(0).permutation(Y1.shape[1])
    rows = whitened(X, 40, RIDGE)
    options = {"calibration": (1.5, 1.2, -0.1, 0.0), "threshold": 0.3}
    host = find_owners(rows, Y1, Y2, **options).owners
    device = find_owners(rows, sp.csr_matrix(Y1[:, order]), sp.csr_matrix(Y2[order]), **options, backend=DEVICE).owners
    assert abs(host - device).max() < 1e-3
