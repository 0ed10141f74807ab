"""How far sums of products in floating point can be off. Holds nothing else."""

from __future__ import annotations

DOUBLE, SINGLE = 2.0**-53, 2.0**-24  # the unit roundoff of float64 and of float32


def gamma(k: int, unit: float = DOUBLE) -> float:
    """The relative error bound of a sum of k products, in any order, fused or not (Higham 2002, section 3.1)."""
    return k * unit / (1 - k * unit)
