"""How far sums of products in float64 can be off. Holds nothing else."""

from __future__ import annotations


def gamma(k: int) -> float:
    """The relative error bound of a sum of k products, in any order, fused or not (Higham 2002, section 3.1)."""
    return k * 2.0**-53 / (1 - k * 2.0**-53)
