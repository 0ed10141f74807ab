"""Whether verdicts that anybody wrote can be evaluated: columns that fit each other, verdicts with valid numbers.

Proves nothing: evaluating a well-formed verdict reads only what belongs to its certificate, and no more is claimed.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from xpipe.argmaxability.verdicts import STATUSES, Verdicts
from xpipe.errors import DataError
from xpipe.ground.sparse_rows import row_pointers


def check_columns(verdicts: Verdicts, n_sets: int, d: int) -> Verdicts:
    """The verdicts with columns of int64 and float64. Raises DataError unless they have n_sets sets and d inputs."""
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
    """The length, 0 for what has none."""
    try:
        return len(values)
    except TypeError:
        return 0


def _column(name: str, given: Any, kinds: str, shape: tuple[int, ...]) -> np.ndarray:
    """One column in int64 or float64. kinds: its numpy kinds, "iu" or "f"."""
    try:
        values = np.asarray(given)
    except ValueError:  # lists of different lengths
        values = np.asarray(None)
    if values.shape == shape and not values.size:
        kinds += "f"  # numpy reads an empty list as floats
    if values.shape != shape or values.dtype.kind not in kinds or values.dtype.itemsize > 8:
        raise DataError(
            "the verdicts are not of these weights and label sets",
            why=f"`{name}` is {values.dtype} with shape {values.shape}, not {'whole' if 'i' in kinds else 'real'} "
            f"numbers with shape {shape}",
            fix="give the weights and the label sets that `verify` was given, in the same order",
        )
    if values.dtype.kind == "f":
        return values.astype(np.float64, copy=False) if "i" not in kinds else values.astype(np.int64)
    if values.dtype == np.uint64:  # numbers above the largest int64 would become other numbers
        return np.where(values > np.iinfo(np.int64).max, np.uint64(np.iinfo(np.int64).max), values).astype(np.int64)
    return values.astype(np.int64)


def wellformed_sets(verdicts: Verdicts, n_labels: int) -> np.ndarray:
    """Whether the numbers of each verdict are valid (bool [n_sets]); the columns are those of `check_columns`."""
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
    bad_before = row_pointers(bad)
    for number in np.flatnonzero(good):
        part = slice(begins[number], ends[number])
        own = labels[part]
        good[number] = bad_before[part.stop] == bad_before[part.start] and len(np.unique(own)) == len(own)
    return good
