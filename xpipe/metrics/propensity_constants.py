"""The constants A and B of inverse propensities that are usual for each dataset.

Holds no formula, and imports nothing slow: sections of pipeline files take their defaults from here.
"""

from __future__ import annotations

from typing import NamedTuple


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
