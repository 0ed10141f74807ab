"""Inverse propensities of labels (Jain et al., KDD 2016), and the constants usual for each dataset.

    q_l = 1 + C (N_l + B)^-A    with    C = (log N - 1) (B + 1)^A

N: training rows; N_l: training rows that have label l. Holds no metric that uses them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from xpipe.errors import ConfigError, DataError
from xpipe.formats.catalog import plain_name


class Constants(NamedTuple):
    """A and B of the formula."""

    a: float
    b: float


WIKIPEDIA, AMAZON, OTHER = Constants(0.5, 0.4), Constants(0.6, 2.6), Constants(0.55, 1.5)
USUAL = {
    "WikiLSHTC-325K": WIKIPEDIA,
    "Wikipedia-500K": WIKIPEDIA,
    "WikipediaLarge-500K": WIKIPEDIA,
    "WikiTitles-500K": WIKIPEDIA,
    "LF-Wikipedia-500K": WIKIPEDIA,
    "Amazon-670K": AMAZON,
    "AmazonTitles-670K": AMAZON,
    "Amazon-3M": AMAZON,
    "AmazonTitles-3M": AMAZON,
    "LF-Amazon-131K": AMAZON,
    "LF-AmazonTitles-131K": AMAZON,
    "LF-AmazonTitles-1.3M": AMAZON,
    "EURLex-4K": OTHER,
    "EURLEX57K": OTHER,
    "Wiki10-31K": OTHER,
    "AmazonCat-13K": OTHER,
    "AmazonCat-14K": OTHER,
    "Delicious-200K": OTHER,
    "Delicious": OTHER,
    "Bibtex": OTHER,
    "Mediamill": OTHER,
    "RCV1-2K": OTHER,
    "WikiSeeAlso-350K": OTHER,
    "LF-WikiSeeAlso-320K": OTHER,
    "LF-WikiSeeAlsoTitles-320K": OTHER,
}
FAMILIES = "0.5 and 0.4 for Wikipedia, 0.6 and 2.6 for Amazon (not AmazonCat), 0.55 and 1.5 for other sets"


def usual_propensity(dataset: str) -> Constants:
    """A and B that the literature uses for a dataset. Raises ConfigError for one that is not in the table USUAL."""
    for name, constants in USUAL.items():
        if plain_name(name) == plain_name(dataset):
            return constants
    import difflib

    close = difflib.get_close_matches(dataset, USUAL, n=3, cutoff=0.4)
    hint = "did you mean " + " or ".join(close) + "? Else give" if close else "give"
    raise ConfigError(f"no usual propensity constants for {dataset!r}", fix=f"{hint} A and B: {FAMILIES}")


def label_frequency(labels: Any) -> np.ndarray:
    """Rows that have each label, int64; labels: rows x labels, sparse or dense, what is not 0 counts."""
    from xpipe.metrics.truth import check_truth

    matrix = check_truth(labels)
    return np.bincount(matrix.indices, minlength=matrix.shape[1]).astype(np.int64)


def inverse_propensity(frequency: np.ndarray, n_rows: int, *, a: float, b: float) -> np.ndarray:
    """Inverse propensity of each label, float64, from its frequency among n_rows training rows.

    Raises ConfigError for constants that are not above 0, DataError where a label has more rows than there are, or
    where there are fewer than three rows: the formula would then give propensities above 1.
    """
    if not (a > 0 and b > 0 and math.isfinite(a) and math.isfinite(b)):
        raise ConfigError(f"propensity constants must be above 0, got A = {a} and B = {b}", fix=f"usual: {FAMILIES}")
    counts = np.asarray(frequency, dtype=np.float64)
    if n_rows < 3:
        raise DataError(
            f"{n_rows} training rows are too few for propensities", why="log N - 1 must be above 0", fix="leave PSP out"
        )
    if counts.ndim != 1 or (len(counts) and not (counts.min() >= 0 and counts.max() <= n_rows)):
        raise DataError(
            f"label frequencies must be one number from 0 to {n_rows:,} a label",
            fix="count the training rows of each label: xpipe.metrics.label_frequency(Y)",
        )
    return propensity_formula(counts, n_rows, a, b)


def propensity_formula(counts: np.ndarray, n_rows: int, a: float, b: float) -> np.ndarray:
    """The formula alone, for numbers that are known to be right; float64."""
    c = (math.log(max(n_rows, 1)) - 1) * (b + 1) ** a
    return 1 + c * (counts + b) ** -a
