"""The model that the rows of a stand-in are drawn from: its labels, topics and words, all from (name, seed) alone.

Holds no rows (`rows`) and no files. A row draws one or two topics, its labels from them, and its words from its labels,
its topics and a strong common background.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from xpipe.ground.seeding import random_order
from xpipe.synth._numba import MAX_TF, Model, Topics
from xpipe.synth.draws import alias_table, bits_for, lognormal_quantiles, poisson_quantiles, uniform, zipf
from xpipe.synth.spec import SPECS, Spec

TOPIC_WORDS = 20  # words that the labels of a topic share
OWN_WORDS, BORROWED_WORDS = 2, 7  # words of a label: its own, and some of its topic's
CERTAIN = 12.0  # labels expected less often than this in train get one row that surely carries them
ONE = 1 << 32  # probabilities in kernels are integers: a probability of 1 is 2**32


class Plan(NamedTuple):
    """Everything that the rows of a stand-in depend on."""

    model: Model
    label_counts: np.ndarray  # int64: quantiles of labels per row
    feature_counts: np.ndarray  # int64: quantiles of features per row
    certain_rows: np.ndarray  # int64, ascending: train rows that surely carry `certain_labels`
    certain_labels: np.ndarray  # int32
    unlabelled: np.ndarray  # int64: train rows without labels


class LabelShares(NamedTuple):
    """How often each label occurs."""

    share: np.ndarray  # float64, adds up to 1
    rare: np.ndarray  # int64: labels that get one certain row


class TopicPlan(NamedTuple):
    """Topics and their labels."""

    members: Topics
    weight: np.ndarray  # float64: the share of labels that are drawn from each topic
    home_topic: np.ndarray  # int32: for each label the topic whose words it borrows


class Vocabulary(NamedTuple):
    """Words (feature numbers) of the background, of topics and of labels."""

    word_of_rank: np.ndarray  # int32: the background's words, most frequent first
    common: np.ndarray  # float64: their shares
    topic_words: np.ndarray  # int32 [n_topics, TOPIC_WORDS]
    label_words: np.ndarray  # int32 [n_labels, OWN_WORDS + BORROWED_WORDS]
    slot_of_byte: np.ndarray  # uint8 [256]: the place in a label's words that a random byte chooses

    @property
    def slot_share(self) -> np.ndarray:
        """How often each place in a label's words is chosen; float64, adds up to 1."""
        return np.bincount(self.slot_of_byte, minlength=self.label_words.shape[1]) / 256


@lru_cache(maxsize=2)
def plan_of(name: str, seed: int) -> Plan:
    """The plan of a stand-in; `name` is one of SPECS."""
    spec = SPECS[name]
    labels = _label_shares(spec, seed)
    topics = _make_topics(spec, seed, labels.share)
    words = _make_vocabulary(spec, seed, topics)
    model = Model(
        topics=topics.members,
        labels=alias_table(labels.share),
        home_topic=topics.home_topic,
        background=alias_table(words.common),
        word_of_rank=words.word_of_rank,
        label_words=words.label_words,
        slot_of_byte=words.slot_of_byte,
        topic_words=words.topic_words,
        idf=_inverse_document_frequencies(spec, labels.share, topics.weight, words),
        tf_weight=np.concatenate([[0.0], 1.0 + np.log(np.arange(1, MAX_TF + 1))]),
    )
    unlabelled = _spread_evenly(spec.unlabelled_train_rows, spec.n_train)
    certain_rows, certain_labels = _certain_rows(spec, seed, labels.rare, topics.home_topic, unlabelled)
    labelled = spec.labels_per_sample * spec.n_train / max(spec.n_train - spec.unlabelled_train_rows, 1)
    return Plan(
        model,
        poisson_quantiles(labelled, max(1, spec.n_labels // 4)),
        lognormal_quantiles(spec.features_per_sample, spec.length_spread, max(4, spec.n_features // 4)),
        certain_rows,
        certain_labels,
        unlabelled,
    )


def _label_shares(spec: Spec, seed: int) -> LabelShares:
    """Zipf-Mandelbrot shares; label numbers are in no order of frequency."""
    share = np.empty(spec.n_labels)
    by_rank = random_order(bits_for(seed, spec.name, "labels"), spec.n_labels)
    share[by_rank] = zipf(spec.n_labels, spec.label_flatness * spec.n_labels, spec.label_exponent)
    n_positives = spec.labels_per_sample * spec.n_train
    rare = np.flatnonzero(share * n_positives < CERTAIN)
    share[rare] = np.maximum(share[rare] - 1 / n_positives, 0.05 / n_positives)  # one positive is certain
    share /= share.sum()
    return LabelShares(share, rare)


def _make_topics(spec: Spec, seed: int, share: np.ndarray) -> TopicPlan:
    """Topics of labels. A popular label belongs to many topics, so that no topic is full of it."""
    n_topics = max(4, spec.n_labels // spec.labels_per_topic)
    appeal = np.cumsum(zipf(n_topics, 0.02 * n_topics, spec.topic_exponent))
    memberships = np.ceil(share * n_topics / spec.fullness).astype(np.int64).clip(1, n_topics)
    label = np.repeat(np.arange(spec.n_labels), memberships)
    topic = np.searchsorted(appeal, uniform(bits_for(seed, spec.name, "topics"), len(label)) * appeal[-1])
    first_membership = np.cumsum(memberships) - memberships
    home_topic = topic[first_membership].astype(np.int32)
    order = np.argsort(topic * spec.n_labels + label, kind="stable")
    weight = (share / memberships)[label][order]
    topic, label = topic[order], label[order]
    indptr = np.searchsorted(topic, np.arange(n_topics + 1)).astype(np.int64)
    running = np.cumsum(weight)
    before = np.concatenate([[0.0], running])[indptr[:-1]]
    topic_weight = np.concatenate([[0.0], running])[indptr[1:]] - before
    limit = (running - before[topic]) / topic_weight[topic] * ONE
    members = Topics(
        alias_table(topic_weight), indptr, np.minimum(limit, ONE - 1).astype(np.uint32), label.astype(np.int32)
    )
    return TopicPlan(members, topic_weight, home_topic)


def _make_vocabulary(spec: Spec, seed: int, topics: TopicPlan) -> Vocabulary:
    """Words of the background, of topics and of labels. The latter two avoid the most common words."""
    n_features, n_words = spec.n_features, OWN_WORDS + BORROWED_WORDS
    word_of_rank = random_order(bits_for(seed, spec.name, "words"), n_features).astype(np.int32)
    skip = n_features // 50
    draws = uniform(bits_for(seed, spec.name, "topic words"), (len(topics.weight), TOPIC_WORDS))
    topic_words = word_of_rank[skip + (draws * (n_features - skip)).astype(np.int64)]
    draws = uniform(bits_for(seed, spec.name, "label words"), (spec.n_labels, n_words))
    own = word_of_rank[skip + (draws[:, :OWN_WORDS] * (n_features - skip)).astype(np.int64)]
    borrowed = topic_words[topics.home_topic[:, None], (draws[:, OWN_WORDS:] * TOPIC_WORDS).astype(np.int64)]
    label_words = np.empty((spec.n_labels, n_words), dtype=np.int32)
    own_place = np.zeros(n_words, dtype=bool)
    own_place[np.arange(OWN_WORDS) * n_words // OWN_WORDS] = True  # own words first, and evenly among the borrowed
    label_words[:, own_place], label_words[:, ~own_place] = own, borrowed
    return Vocabulary(word_of_rank, zipf(n_features, 0.006 * n_features, 1.05), topic_words, label_words, _slots())


def _slots() -> np.ndarray:
    """The place in a label's words for each of 256 equally likely bytes, uint8; earlier places are more likely."""
    weights = (np.arange(OWN_WORDS + BORROWED_WORDS) + 2.0) ** -0.8
    ends = np.rint(np.cumsum(weights) / weights.sum() * 256)
    return np.searchsorted(ends, np.arange(256), side="right").astype(np.uint8)


def _inverse_document_frequencies(
    spec: Spec, share: np.ndarray, topic_weight: np.ndarray, words: Vocabulary
) -> np.ndarray:
    """The idf of each word as a vectorizer would fit it, from the expected number of rows with the word."""
    n_features = spec.n_features
    p_background = sum(spec.background) / 2
    expected = np.zeros(n_features)
    expected[words.word_of_rank] = p_background * (
        (1 - spec.genre_share) * words.common + spec.genre_share / n_features
    )
    p_label = (1 - p_background) * (1 - spec.topic_share)
    expected += np.bincount(
        words.label_words.ravel(), np.multiply.outer(share, words.slot_share).ravel() * p_label, minlength=n_features
    )
    p_topic = (1 - p_background) * spec.topic_share
    expected += np.bincount(
        words.topic_words.ravel(), np.repeat(topic_weight / TOPIC_WORDS, TOPIC_WORDS) * p_topic, minlength=n_features
    )
    rate = -np.expm1(-expected * spec.features_per_sample * 1.5)
    return 1.0 + np.log((1 + spec.n_train) / (1 + spec.n_train * rate))


def _spread_evenly(n: int, n_rows: int) -> np.ndarray:
    """The numbers of n evenly spaced rows, int64."""
    return ((np.arange(n) + 0.5) * n_rows / max(n, 1)).astype(np.int64)


def _certain_rows(
    spec: Spec, seed: int, rare: np.ndarray, home_topic: np.ndarray, unlabelled: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(train rows, the rare label each surely carries): every label has a training positive, as in real datasets."""
    rare = rare[np.argsort(home_topic[rare], kind="stable")]
    rows = np.setdiff1d(np.arange(spec.n_train), unlabelled)
    together = max(1, math.ceil(len(rare) / len(rows)))  # labels of one topic share a row where rows are few
    bundle = np.arange(len(rare)) // together
    n_bundles = int(bundle[-1]) + 1 if len(bundle) else 0
    chosen = rows[random_order(bits_for(seed, spec.name, "certain"), len(rows))[:n_bundles]]
    at = chosen[bundle]
    order = np.argsort(at, kind="stable")
    return at[order], rare[order].astype(np.int32)
