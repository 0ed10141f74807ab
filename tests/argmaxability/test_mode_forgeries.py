"""Forged certificates of every mode: `check` lets pass only what is true in rational arithmetic."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from tests.argmaxability.oracles import all_sets, as_rows, exact_margin
from tests.argmaxability.test_modes import weights
from xpipe.argmaxability import Verdicts, check, verify
from xpipe.argmaxability.output_layer import row_norms
from xpipe.argmaxability.verdicts import ARGMAXABLE, UNARGMAXABLE

QUESTIONS = [(mode, inputs) for mode in ("sign", "topk", "argmax") for inputs in ("any", "nonnegative")]


class Truth:
    """The radius of every set under any question, in rationals."""

    def __init__(self, W, bias, Y):
        self.W, self.bias, self.sets = W, bias, np.split(Y.indices, Y.indptr[1:-1])
        self.largest, self.known = Fraction(float(row_norms(W).max())), {}

    def holds(self, verdicts: Verdicts, row: int) -> bool:
        """Whether the claim is true, whatever its certificate is worth."""
        own = self.sets[row]
        if verdicts.mode == "argmax" and len(own) != 1:
            return False
        key = (verdicts.mode == "sign", verdicts.inputs, verdicts.box, row)
        if key not in self.known:
            mode = "sign" if verdicts.mode == "sign" else "topk"
            margin = exact_margin(self.W, own, self.bias, verdicts.box, verdicts.inputs == "nonnegative", mode)
            self.known[key] = None if margin is None else margin / (1 if mode == "sign" else self.largest)
        radius, eps = self.known[key], Fraction(verdicts.eps)
        lower, upper, code = verdicts.radius_lower[row], verdicts.radius_upper[row], verdicts.codes[row]
        if radius is None:
            return bool(code != UNARGMAXABLE and upper == np.inf)
        near = Fraction(1, 10**12)  # norms have roots
        if lower > 0 and (lower == np.inf or Fraction(lower) > radius * (1 + near)):
            return False
        if upper < np.inf and Fraction(upper) < radius * (1 - near):
            return False
        return bool(code == ARGMAXABLE) == (radius > eps) or code not in (ARGMAXABLE, UNARGMAXABLE)


def forge(verdicts: Verdicts, rng: np.random.Generator):
    """Mutations of valid verdicts: numbers, signs, labels, box, mode, inputs."""
    lower, upper, m = verdicts.radius_lower, verdicts.radius_upper, verdicts.multipliers

    def change(**changes):
        return dataclasses.replace(verdicts, **changes)

    finite = np.where(np.isfinite(upper), upper, 1.0)
    yield change(codes=np.where(verdicts.codes < 2, 1 - verdicts.codes, 2).astype(np.int8))
    yield change(radius_lower=np.minimum(lower * 1.001, upper))
    yield change(radius_lower=finite, radius_upper=finite)
    yield change(radius_upper=np.maximum(finite * 0.999, lower))
    yield change(radius_upper=lower, codes=np.zeros_like(verdicts.codes))
    yield change(points=-verdicts.points)
    yield change(points=verdicts.points[::-1])
    yield change(points=np.clip(verdicts.points + 1.0, None, verdicts.box))
    yield change(points=np.nan_to_num(verdicts.points))
    yield change(multipliers=-m)
    yield change(multipliers=m[::-1])
    yield change(multipliers=rng.random(len(m)))
    yield change(multipliers=np.zeros(len(m)))
    yield change(multiplier_labels=np.flip(verdicts.multiplier_labels))
    yield change(multiplier_labels=verdicts.multiplier_labels + 1)
    yield change(multiplier_tails=-m)
    yield change(box=verdicts.box / 2)
    yield change(box=verdicts.box / 1e8)
    yield change(box=verdicts.box * 8)
    yield change(eps=1e-300)
    yield change(eps=1.0)
    for mode, inputs in QUESTIONS:
        yield change(mode=mode, inputs=inputs)


def test_no_forgery_passes_unless_it_is_true():
    rng = np.random.default_rng(0)
    forged = passed_though_true = 0
    for n, d, kind, with_bias in ((3, 2, "whole", False), (3, 2, "gaussian", True)):
        W, bias = weights(n, d, kind)
        shift = bias if with_bias else None
        Y = all_sets(n)
        truth = Truth(W, shift, Y)
        for mode, inputs in QUESTIONS:
            rows = 1 << np.arange(n) if mode == "argmax" else np.arange(2**n)  # row r of Y has the bits of r
            verdicts = verify(W, Y[rows], shift, mode=mode, inputs=inputs, radius="exact")
            part = Y[rows]
            own = Truth(W, shift, part) if mode == "argmax" else truth
            for claim in forge(verdicts, rng):
                holds = check(W, part, claim, shift)
                true = np.array([own.holds(claim, row) for row in range(len(rows))])
                assert not (holds & ~true).any(), (mode, inputs, claim.mode, claim.inputs)
                forged += int((~true).sum())
                passed_though_true += int(holds.sum())
    assert forged >= 200
    assert passed_though_true  # a check that refuses everything would pass otherwise


@pytest.mark.parametrize("changes", [{"mode": "top"}, {"mode": None}, {"mode": 3}, {"inputs": ["any"]}, {"inputs": ""}])
def test_an_unknown_question_proves_nothing(changes):
    W, Y = np.eye(3), as_rows([[0], [1, 2]], 3)
    assert not check(W, Y, dataclasses.replace(verify(W, Y), **changes)).any()


def test_multipliers_of_one_side_prove_nothing():
    """Without a row of the other side there is no mixture to compare with."""
    W = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    Y = as_rows([[0]], 3)
    verdicts = verify(W, Y, mode="topk")
    for labels in ([0], [1], [1, 2]):
        forged = dataclasses.replace(
            verdicts, codes=np.array([UNARGMAXABLE], np.int8), radius_lower=np.zeros(1), radius_upper=np.full(1, 1e-12),
            multiplier_ptr=np.array([0, len(labels)]), multiplier_labels=np.array(labels, np.int32),
            multipliers=np.ones(len(labels)),
        )  # fmt: skip
        assert not check(W, Y, forged).any()
