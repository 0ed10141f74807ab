"""Whether verdicts that anybody wrote can be looked at: columns that fit each other, rows whose numbers make sense.

Proves nothing: that a row is well-formed says only that evaluating it reads what its certificate is about.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from xpipe.argmaxability.verdicts import STATUSES, Verdicts
from xpipe.errors import DataError

FEW = 5  # columns named in a message


def check_columns(verdicts: Verdicts, n_sets: int, d: int) -> Verdicts:
    """The verdicts with columns of int64 and float64. Raises DataError unless they are of n_sets sets and d inputs."""
    count = _length(verdicts.multipliers)
    wanted: dict[str, tuple[str, tuple[int, ...]]] = {
        "codes": ("iu", (n_sets,)),
        "radius_lower": ("f", (n_sets,)),
        "radius_upper": ("f", (n_sets,)),
        "points": ("f", (n_sets, d)),
        "multiplier_ptr": ("iu", (n_sets + 1,)),
        "multiplier_labels": ("iu", (count,)),
        "multipliers": ("f", (count,)),
        "point_tails": ("f", (n_sets, d)),
        "multiplier_tails": ("f", (count,)),
    }
    columns: dict[str, Any] = {}
    for name, (kinds, shape) in wanted.items():
        given = getattr(verdicts, name)
        if given is None and name.endswith("_tails"):
            continue
        columns[name] = _column(name, given, kinds, shape)
    return dataclasses.replace(verdicts, **columns)


def _length(values: Any) -> int:
    try:
        return len(values)
    except TypeError:
        return 0


def _column(name: str, given: Any, kinds: str, shape: tuple[int, ...]) -> np.ndarray:
    try:
        values = np.asarray(given)
    except ValueError:  # lists of other lengths
        values = np.asarray(None)
    if values.shape == shape and not values.size:
        kinds += "f"  # an empty list is one of floats
    if values.shape != shape or values.dtype.kind not in kinds or values.dtype.itemsize > 8:
        raise DataError(
            "the verdicts are not of these weights and label sets",
            why=f"`{name}` is {values.dtype} with shape {values.shape}, not {'whole' if 'i' in kinds else 'real'} "
            f"numbers with shape {shape}",
            fix="give the weights and the label sets that `verify` was given, in the same order",
        )
    if values.dtype.kind == "f":
        return values.astype(np.float64, copy=False) if "i" not in kinds else values.astype(np.int64)
    if values.dtype == np.uint64:  # larger ones would come out negative, or as any other number
        return np.where(values > np.iinfo(np.int64).max, np.uint64(np.iinfo(np.int64).max), values).astype(np.int64)
    return values.astype(np.int64)


def wellformed_rows(verdicts: Verdicts, n_labels: int) -> np.ndarray:
    """Whether each row's numbers make sense (bool [n_sets]); the columns are those of `check_columns`."""
    lower, upper = verdicts.radius_lower, verdicts.radius_upper
    good = (verdicts.codes >= 0) & (verdicts.codes < len(STATUSES)) & (lower >= 0) & (lower <= upper)  # no NaN
    missing = np.isnan(verdicts.points)
    good &= missing.all(axis=1) | np.isfinite(verdicts.points).all(axis=1)
    if verdicts.point_tails is not None:
        good &= np.where(missing, verdicts.point_tails == 0, np.isfinite(verdicts.point_tails)).all(axis=1)
    begins, ends = verdicts.multiplier_ptr[:-1], verdicts.multiplier_ptr[1:]
    good &= (begins >= 0) & (begins <= ends) & (ends <= len(verdicts.multipliers))
    labels, multipliers = verdicts.multiplier_labels, verdicts.multipliers
    bad = (labels < 0) | (labels >= n_labels) | ~np.isfinite(multipliers) | (multipliers < 0)
    if verdicts.multiplier_tails is not None:
        bad |= ~np.isfinite(verdicts.multiplier_tails)
    bad_before = np.concatenate([[0], np.cumsum(bad)])
    for row in np.flatnonzero(good):
        part = slice(begins[row], ends[row])
        own = labels[part]
        good[row] = bad_before[part.stop] == bad_before[part.start] and len(np.unique(own)) == len(own)
    return good
