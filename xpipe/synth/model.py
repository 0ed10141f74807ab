"""The model behind stand-in datasets: topics, labels, words, and the rows they make, with planted truth.

Holds no files: `synth` writes them. A row draws one or two topics, labels from them, and words from its labels, its
topics and a strong common background; every row has a random generator of its own, so pieces are made in any order.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from xpipe.errors import ConfigError
from xpipe.formats import catalog
from xpipe.ground.sparse import Triple

SYNTH_VERSION = 1  # part of every content key: raise it when the bytes change
SENTENCE = "SYNTHETIC stand-in: generated rows with the published shape of the dataset, not the dataset itself"

MARKER = "SYNTHETIC.json"
SHAPE = ("n_features", "n_labels", "n_train", "n_test", "n_dev", "labels_per_sample", "features_per_sample",
         "unlabelled_train_rows")  # fmt: skip
THEMES = (
    "fisheries", "customs", "dairy", "transport", "energy", "chemicals", "banking", "forestry", "health", "textiles",
    "cereals", "research", "taxation", "wine", "employment", "steel", "fruit", "telecom", "competition", "waste",
    "tourism", "housing", "livestock", "shipping", "insurance", "education", "water", "mining", "aviation", "patents",
    "sugar", "statistics",
)  # fmt: skip
ASPECTS = ("quota", "licence", "tariff", "safety", "aid", "report", "market", "price", "control", "origin", "standard")

QUANTILES = 4096  # resolution of the row length tables
TOPIC_WORDS = 20  # words a topic shares among its labels
OWN_WORDS, BORROWED_WORDS = 2, 7  # words of a label: its own, and some of its topic's
CERTAIN = 12.0  # labels expected less often than this in train get one row that surely carries them
BOX = 1 << 32  # probabilities in kernels are integers over 2**32


@dataclass(frozen=True)
class Spec:
    """Shape of a stand-in and the knobs of its generator."""

    name: str
    n_features: int
    n_labels: int
    n_train: int
    n_test: int
    n_dev: int
    labels_per_sample: float
    features_per_sample: float
    unlabelled_train_rows: int = 0
    piece_rows: int = 2048
    labels_per_topic: int = 25
    length_spread: float = 0.45  # sigma of the log of features per row
    label_flatness: float = 0.0075  # Zipf-Mandelbrot offset as a share of the labels
    label_exponent: float = 1.5
    topic_exponent: float = 1.0  # Zipf of the topics' sizes
    fullness: float = 0.8  # a label too common for this share of a topic of middling size belongs to several
    two_topics: float = 0.2  # rows with a second topic
    stray: float = 0.06  # labels of no topic of the row
    hidden: float = 0.65  # labels the row's text says nothing about
    genres: int = 6
    background: tuple[float, float] = (0.6, 0.7)  # share of a row's words drawn from the common vocabulary
    topic_share: float = 0.75  # of the other words, those of the topic instead of a label
    genre_share: float = 0.1  # background words drawn from one of a few genres

    def rows(self, split: str) -> int:
        return {"train": self.n_train, "test": self.n_test, "dev": self.n_dev}[split]


@dataclass(frozen=True)
class Piece:
    """A fixed range of rows of one split: the unit of work, the same for any number of workers."""

    split: str
    index: int
    first_row: int
    n_rows: int


def _published(name: str, **knobs) -> Spec:
    known = catalog.PUBLISHED[name]
    shape = {key: getattr(known, key) for key in SHAPE}
    shape["unlabelled_train_rows"] = known.unlabelled_train_rows or 0
    return Spec(**{"name": name, **shape, **knobs})


# Rows without labels: 28 where published (eurlex-4k), none elsewhere. EURLEX57K has no published features: 5,000 words,
# 107 a row, are those of a TF-IDF of its 5,000 most frequent words.
SPECS = {
    spec.name: spec
    for spec in (
        _published("eurlex-4k"),
        _published("wiki10-31k", piece_rows=1024, labels_per_topic=100, two_topics=0.5),
        _published("amazoncat-13k", piece_rows=16384),
        _published("wikilshtc-325k", piece_rows=16384),
        _published("eurlex57k", piece_rows=4096, n_features=5_000, features_per_sample=107.0),
        Spec("tiny", 300, 60, 600, 200, 0, 3.0, 25.0, 3, piece_rows=256, labels_per_topic=8),
    )
}


def spec_of(name: str) -> Spec:
    """The stand-in's specification. Raises ConfigError with close matches for an unknown name."""
    if name in SPECS:
        return SPECS[name]
    if catalog.plain_name(name) == "tiny":
        return SPECS["tiny"]
    return SPECS[catalog.lookup(name, also=["tiny"]).name]


def plan_pieces(name: str) -> list[Piece]:
    """All pieces of the stand-in, in the order of its files: train, test, dev."""
    spec = spec_of(name)
    return [
        Piece(split, index, first, min(spec.piece_rows, spec.rows(split) - first))
        for split in catalog.SPLITS
        for index, first in enumerate(range(0, spec.rows(split), spec.piece_rows))
    ]


class _Model(NamedTuple):
    """Everything rows are drawn from; arrays in the order the kernel takes them."""

    topic_threshold: np.ndarray  # alias table of topics
    topic_alias: np.ndarray
    topic_indptr: np.ndarray  # topic -> its labels, with cumulated shares in units of 2**-32
    topic_limit: np.ndarray
    topic_label: np.ndarray
    any_threshold: np.ndarray  # alias table of all labels
    any_alias: np.ndarray
    home_topic: np.ndarray  # label -> the topic whose words it borrows
    word_threshold: np.ndarray  # alias table of the background, by rank
    word_alias: np.ndarray
    word_of_rank: np.ndarray
    label_words: np.ndarray  # n_labels x words
    slot_of_byte: np.ndarray  # 256 equally likely bytes -> position in a label's words
    topic_words: np.ndarray
    idf: np.ndarray
    tf_weight: np.ndarray


class _Plan(NamedTuple):
    model: _Model
    label_counts: np.ndarray  # quantiles of labels per row
    feature_counts: np.ndarray
    certain_rows: np.ndarray  # train rows (sorted) that surely carry certain_labels
    certain_labels: np.ndarray
    unlabelled: np.ndarray  # train rows without labels


def _bits(seed: int, *path: str):
    """A Philox bit generator for one purpose; only its raw stream is used, which numpy never changes."""
    digest = hashlib.sha256("/".join(("synth", *path)).encode()).digest()
    words = np.frombuffer(digest, dtype="<u4").astype(np.uint32)
    return np.random.Philox(np.random.SeedSequence([seed, *words.tolist()]))


def _uniform(bits, shape) -> np.ndarray:
    raw = bits.random_raw(int(np.prod(shape)))
    return ((raw >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(shape)


def _permutation(bits, n: int) -> np.ndarray:
    return np.argsort(bits.random_raw(n), kind="stable")


def _alias(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from xpipe.synth._numba import fill_alias

    threshold, alias = np.empty(len(weights), dtype=np.uint32), np.empty(len(weights), dtype=np.int32)
    fill_alias(weights * (len(weights) / weights.sum()), threshold, alias)
    return threshold, alias


def _zipf(n: int, offset: float, exponent: float) -> np.ndarray:
    weights = (np.arange(n) + 1 + offset) ** -exponent
    return weights / weights.sum()


@lru_cache(maxsize=2)
def _plan(name: str, seed: int) -> _Plan:
    """The model of a stand-in, derived from its name and seed alone."""
    from xpipe.synth._numba import MAX_TF

    spec = SPECS[name]
    n_labels, n_features = spec.n_labels, spec.n_features

    # labels: Zipf-Mandelbrot, ids in no order of frequency
    share = np.empty(n_labels)
    by_rank = _permutation(_bits(seed, name, "labels"), n_labels)
    share[by_rank] = _zipf(n_labels, spec.label_flatness * n_labels, spec.label_exponent)
    n_positives = spec.labels_per_sample * spec.n_train
    rare = np.flatnonzero(share * n_positives < CERTAIN)
    share[rare] = np.maximum(share[rare] - 1 / n_positives, 0.05 / n_positives)  # one positive is certain
    share /= share.sum()

    # topics: a popular label belongs to many, so that none of them is full of it
    n_topics = max(4, n_labels // spec.labels_per_topic)
    appeal = np.cumsum(_zipf(n_topics, 0.02 * n_topics, spec.topic_exponent))
    memberships = np.ceil(share * n_topics / spec.fullness).astype(np.int64).clip(1, n_topics)
    label = np.repeat(np.arange(n_labels), memberships)
    topic = np.searchsorted(appeal, _uniform(_bits(seed, name, "topics"), len(label)) * appeal[-1])
    first_membership = np.cumsum(memberships) - memberships
    home_topic = topic[first_membership].astype(np.int32)
    order = np.argsort(topic * n_labels + label, kind="stable")
    weight = (share / memberships)[label][order]
    topic, label = topic[order], label[order]
    topic_indptr = np.searchsorted(topic, np.arange(n_topics + 1)).astype(np.int64)
    running = np.cumsum(weight)
    before = np.concatenate([[0.0], running])[topic_indptr[:-1]]
    topic_weight = np.concatenate([[0.0], running])[topic_indptr[1:]] - before
    limit = (running - before[topic]) / topic_weight[topic] * BOX
    topic_limit = np.minimum(limit, BOX - 1).astype(np.uint32)

    # words: topics and labels choose theirs outside the most common ones
    word_of_rank = _permutation(_bits(seed, name, "words"), n_features).astype(np.int32)
    common = _zipf(n_features, 0.006 * n_features, 1.05)
    skip = n_features // 50
    draws = _uniform(_bits(seed, name, "topic words"), (n_topics, TOPIC_WORDS))
    topic_words = word_of_rank[skip + (draws * (n_features - skip)).astype(np.int64)]
    draws = _uniform(_bits(seed, name, "label words"), (n_labels, OWN_WORDS + BORROWED_WORDS))
    own = word_of_rank[skip + (draws[:, :OWN_WORDS] * (n_features - skip)).astype(np.int64)]
    borrowed = topic_words[home_topic[:, None], (draws[:, OWN_WORDS:] * TOPIC_WORDS).astype(np.int64)]
    label_words = np.empty((n_labels, OWN_WORDS + BORROWED_WORDS), dtype=np.int32)
    places = np.arange(OWN_WORDS + BORROWED_WORDS)
    own_place = np.zeros(len(places), dtype=bool)
    own_place[np.arange(OWN_WORDS) * len(places) // OWN_WORDS] = True  # own words first, and evenly among the borrowed
    label_words[:, own_place], label_words[:, ~own_place] = own, borrowed
    weights = (places + 2.0) ** -0.8
    ends = np.rint(np.cumsum(weights) / weights.sum() * 256)
    slot_of_byte = np.searchsorted(ends, np.arange(256), side="right").astype(np.uint8)

    # idf: as if fitted, from the expected number of rows with each word
    p_background = sum(spec.background) / 2
    expected = np.zeros(n_features)
    expected[word_of_rank] = p_background * ((1 - spec.genre_share) * common + spec.genre_share / n_features)
    slot_share = np.bincount(slot_of_byte, minlength=len(places)) / 256
    p_label = (1 - p_background) * (1 - spec.topic_share)
    expected += np.bincount(
        label_words.ravel(), np.multiply.outer(share, slot_share).ravel() * p_label, minlength=n_features
    )
    p_topic = (1 - p_background) * spec.topic_share
    expected += np.bincount(
        topic_words.ravel(), np.repeat(topic_weight / TOPIC_WORDS, TOPIC_WORDS) * p_topic, minlength=n_features
    )
    rate = -np.expm1(-expected * spec.features_per_sample * 1.5)
    idf = 1.0 + np.log((1 + spec.n_train) / (1 + spec.n_train * rate))
    tf_weight = np.concatenate([[0.0], 1.0 + np.log(np.arange(1, MAX_TF + 1))])

    unlabelled = _spread(spec.unlabelled_train_rows, spec.n_train)
    certain_rows, certain_labels = _certain(spec, seed, rare, home_topic, unlabelled)
    labelled = spec.labels_per_sample * spec.n_train / max(spec.n_train - spec.unlabelled_train_rows, 1)
    return _Plan(
        _Model(
            *_alias(topic_weight), topic_indptr, topic_limit, label.astype(np.int32), *_alias(share), home_topic,
            *_alias(common), word_of_rank, label_words, slot_of_byte, topic_words, idf, tf_weight,
        ),
        _poisson_quantiles(labelled, max(1, n_labels // 4)),
        _lognormal_quantiles(spec.features_per_sample, spec.length_spread, max(4, n_features // 4)),
        certain_rows, certain_labels, unlabelled,
    )  # fmt: skip


def _spread(n: int, n_rows: int) -> np.ndarray:
    """n rows, evenly spaced."""
    return ((np.arange(n) + 0.5) * n_rows / max(n, 1)).astype(np.int64)


def _certain(spec: Spec, seed: int, rare, home_topic, unlabelled) -> tuple[np.ndarray, np.ndarray]:
    """Train rows and the rare labels they surely carry: each label has a training positive, as the real ones have."""
    rare = rare[np.argsort(home_topic[rare], kind="stable")]
    rows = np.setdiff1d(np.arange(spec.n_train), unlabelled)
    together = max(1, math.ceil(len(rare) / len(rows)))  # labels of one topic share a row where rows are few
    bundle = np.arange(len(rare)) // together
    n_bundles = int(bundle[-1]) + 1 if len(bundle) else 0
    chosen = rows[_permutation(_bits(seed, spec.name, "certain"), len(rows))[:n_bundles]]
    at = chosen[bundle]
    order = np.argsort(at, kind="stable")
    return at[order], rare[order].astype(np.int32)


def _poisson_quantiles(mean: float, highest: int) -> np.ndarray:
    """1 + Poisson(mean - 1): labels per row."""
    rate, n = mean - 1, min(highest, int(mean * 4 + 40))
    steps = np.concatenate([[-rate], np.log(rate) - np.log(np.arange(1, n))])
    cumulated = np.cumsum(np.exp(np.cumsum(steps)))
    levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
    return 1 + np.minimum(np.searchsorted(cumulated, levels), n - 1).astype(np.int64)


def _lognormal_quantiles(mean: float, spread: float, highest: int) -> np.ndarray:
    """Features per row: skewed, within 4..highest, with the mean exact after rounding."""
    from scipy.special import ndtri

    shape = np.exp(spread * ndtri((np.arange(QUANTILES) + 0.5) / QUANTILES))
    low, high = 0.0, 2.0 * mean
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.rint(shape * middle).clip(4, highest).mean() < mean else (low, middle)
    return np.rint(shape * high).clip(4, highest).astype(np.int64)


def _lengths(table: np.ndarray, key: np.ndarray, multiplier: int, rows: np.ndarray) -> np.ndarray:
    """Row lengths from a table of quantiles, visited evenly (a Weyl sequence), so that averages hold at every size."""
    position = rows.astype(np.uint64) * np.uint64(multiplier) + key
    return table[(position >> np.uint64(64 - 12)).astype(np.int64)]


def rows_of(name: str, seed: int, piece: Piece) -> tuple[Triple, Triple]:
    """(features, labels) of a piece as CSR arrays."""
    from xpipe.synth._numba import sample_rows

    spec = spec_of(name)
    plan = _plan(spec.name, checked_seed(seed))
    keys = _bits(seed, spec.name, piece.split).random_raw(3)
    rows = np.arange(piece.first_row, piece.first_row + piece.n_rows)
    label_counts = _lengths(plan.label_counts, keys[1], 0x9E3779B97F4A7C15, rows)
    feature_counts = _lengths(plan.feature_counts, keys[2], 0x6A09E667F3BCC909, rows)
    given_indptr, given = np.zeros(piece.n_rows + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
    if piece.split == "train":
        bounds = np.searchsorted(plan.certain_rows, [rows[0], rows[-1] + 1])
        given = plan.certain_labels[bounds[0] : bounds[1]]
        given_indptr = np.searchsorted(plan.certain_rows, np.append(rows, rows[-1] + 1)) - bounds[0]
        label_counts = np.maximum(label_counts, np.diff(given_indptr))
        label_counts[np.isin(rows, plan.unlabelled)] = 0
    label_indptr = np.concatenate([[0], np.cumsum(label_counts)])
    feature_indptr = np.concatenate([[0], np.cumsum(feature_counts)])
    label_indices = np.empty(label_indptr[-1], dtype=np.int32)
    feature_indices = np.empty(feature_indptr[-1], dtype=np.int32)
    values = np.empty(feature_indptr[-1], dtype=np.float32)
    low, high = spec.background
    chances = (spec.two_topics, spec.stray, spec.hidden, low, high - low, spec.topic_share, spec.genre_share)
    integers = tuple(np.uint64(chance * BOX) for chance in chances)
    sample_rows(
        keys[0], piece.first_row, (*integers, np.uint64(spec.genres)), given_indptr, given, *plan.model,
        label_indptr, feature_indptr, label_indices, feature_indices, values,
    )  # fmt: skip
    ones = np.ones(len(label_indices), dtype=np.float32)
    return Triple(feature_indptr, feature_indices, values), Triple(label_indptr, label_indices, ones)


def planted_truth(name: str, seed: int = 0):
    """CSR of n_labels x n_features: how often each of a label's characteristic words is drawn; rows add up to 1."""
    import scipy.sparse as sp

    spec = spec_of(name)
    model = _plan(spec.name, checked_seed(seed)).model
    n_words = model.label_words.shape[1]
    share = np.bincount(model.slot_of_byte, minlength=n_words) / 256
    rows = np.repeat(np.arange(spec.n_labels), n_words)
    entries = (np.tile(share, spec.n_labels).astype(np.float32), (rows, model.label_words.ravel()))
    return sp.csr_matrix(entries, shape=(spec.n_labels, spec.n_features))


def label_names(name: str, seed: int = 0) -> list[str]:
    """One readable name a label: its home topic, an aspect, its number."""
    topics = _plan(spec_of(name).name, checked_seed(seed)).model.home_topic.tolist()
    return [
        f"{THEMES[topic % len(THEMES)]} {topic // len(THEMES)}, {ASPECTS[label * 7 % len(ASPECTS)]} {label}"
        for label, topic in enumerate(topics)
    ]


def feature_names(name: str) -> list[str]:
    """One pronounceable word a feature, in alphabetical order as vectorisers leave them."""
    n_features = spec_of(name).n_features
    syllables = [consonant + vowel for consonant in "bcdfghjklmnprstvwxyz" for vowel in "aeiou"]
    length = max(2, math.ceil(math.log(n_features, len(syllables))))
    places = [len(syllables) ** place for place in reversed(range(length))]
    codes = range(0, n_features * (step := len(syllables) ** length // n_features), step)
    return ["".join(syllables[code // place % len(syllables)] for place in places) for code in codes]


def checked_seed(seed: int) -> int:
    if not isinstance(seed, int) or seed < 0:
        raise ConfigError(f"the seed must be a whole number from 0 on, not {seed!r}", fix="seed: 0")
    return seed
