"""Readable names for the labels and features of a stand-in.

Holds no rows and no files.
"""

from __future__ import annotations

import math

from xpipe.synth.spec import checked_seed, spec_of

THEMES = (
    "fisheries", "customs", "dairy", "transport", "energy", "chemicals", "banking", "forestry", "health", "textiles",
    "cereals", "research", "taxation", "wine", "employment", "steel", "fruit", "telecom", "competition", "waste",
    "tourism", "housing", "livestock", "shipping", "insurance", "education", "water", "mining", "aviation", "patents",
    "sugar", "statistics",
)  # fmt: skip
ASPECTS = ("quota", "licence", "tariff", "safety", "aid", "report", "market", "price", "control", "origin", "standard")


def label_names(name: str, seed: int = 0) -> list[str]:
    """One readable name per label: its home topic, an aspect, its number.

    Parameters
    ----------
    name : str
        The name of the stand-in.
    seed : int
        Its seed.

    Returns
    -------
    list of str
        n_labels different names.

    Raises
    ------
    ConfigError
        There is no stand-in of this name, or the seed is not a whole number from 0 on.

    Examples
    --------
    >>> from xpipe.synth import label_names
    >>> len(label_names("tiny"))
    60
    """
    from xpipe.synth.model import plan_of

    topics = plan_of(spec_of(name).name, checked_seed(seed)).model.home_topic.tolist()
    return [
        f"{THEMES[topic % len(THEMES)]} {topic // len(THEMES)}, {ASPECTS[label * 7 % len(ASPECTS)]} {label}"
        for label, topic in enumerate(topics)
    ]


def feature_names(name: str) -> list[str]:
    """One pronounceable word per feature, in alphabetical order as vectorizers leave them.

    Parameters
    ----------
    name : str
        The name of the stand-in.

    Returns
    -------
    list of str
        n_features different words.

    Raises
    ------
    ConfigError
        There is no stand-in of this name.

    Examples
    --------
    >>> from xpipe.synth import feature_names
    >>> feature_names("tiny")[:3]
    ['baba', 'bajo', 'base']
    """
    n_features = spec_of(name).n_features
    syllables = [consonant + vowel for consonant in "bcdfghjklmnprstvwxyz" for vowel in "aeiou"]
    length = max(2, math.ceil(math.log(n_features, len(syllables))))
    places = [len(syllables) ** place for place in reversed(range(length))]
    step = len(syllables) ** length // n_features
    codes = range(0, n_features * step, step)
    return ["".join(syllables[code // place % len(syllables)] for place in places) for code in codes]
