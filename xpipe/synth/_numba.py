"""Kernels of `synth`: labels and words of the rows of one piece, from a counter-based generator.

Holds no model building and no files. Every row has a generator of its own, so a row does not depend on its neighbours.
Probabilities are uint64 in units of 2**-32, and are compared with 32 random bits.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xpipe.ground._splitmix_numba import GOLDEN, mix
from xpipe.ground.accelerate import jit, jit_inline
from xpipe.synth._alias_numba import LOW_32, SHIFT_32, AliasTable, draw_alias, scale

HALF = np.uint64(1 << 31)
LOW_8 = np.uint64(0xFF)
SECOND = np.uint64(102)  # of 256 draws, those from a row's second topic
MAX_TF = 64  # larger term counts weigh the same
PATIENCE = 12  # draws in vain before a row looks for labels outside its topics
MOST_VISIBLE = 4096  # labels of a row that can add words


class Topics(NamedTuple):
    """Topics and their labels: topic t has the labels label[indptr[t] : indptr[t + 1]]."""

    sizes: AliasTable  # draws a topic
    indptr: np.ndarray  # int64
    limit: np.ndarray  # uint32: cumulated shares of the labels of a topic, in units of 2**-32
    label: np.ndarray  # int32


class Model(NamedTuple):
    """Everything rows are drawn from."""

    topics: Topics
    labels: AliasTable  # draws any label
    home_topic: np.ndarray  # int32 [n_labels]: the topic whose words a label borrows
    background: AliasTable  # draws the rank of a word of the common vocabulary
    word_of_rank: np.ndarray  # int32 [n_features]
    label_words: np.ndarray  # int32 [n_labels, words of a label]
    slot_of_byte: np.ndarray  # uint8 [256]: the place in a label's words that a random byte chooses
    topic_words: np.ndarray  # int32 [n_topics, words of a topic]
    idf: np.ndarray  # float64 [n_features]
    tf_weight: np.ndarray  # float64 [MAX_TF + 1]: weight of a term count


class Chances(NamedTuple):
    """Probabilities in units of 2**-32, and a number; all uint64."""

    two_topics: np.uint64
    stray: np.uint64
    hidden: np.uint64
    background_low: np.uint64
    background_width: np.uint64
    topic: np.uint64
    genre: np.uint64
    n_genres: np.uint64


class RowLists(NamedTuple):
    """One list of numbers per row: row i has indices[indptr[i] : indptr[i + 1]]."""

    indptr: np.ndarray  # int64
    indices: np.ndarray  # int32


@jit_inline
def draw_in_topic(bits, topic, topics):
    """One label of a topic by its share."""
    lo = topics.indptr[topic]
    hi = topics.indptr[topic + 1] - 1
    u = bits >> SHIFT_32
    while lo < hi:
        middle = (lo + hi) // 2
        if u < np.uint64(topics.limit[middle]):
            hi = middle
        else:
            lo = middle + 1
    return np.int64(topics.label[lo])


@jit_inline
def draw_topics(state, chosen, n_given, chances, model):
    """(state of the generator, first topic, second topic) of a row; both are the same where it has only one.

    The first n_given entries of `chosen` are labels the row surely has: its first topic is then that of the first one.
    """
    state += GOLDEN
    first = draw_alias(mix(state), model.topics.sizes)
    if n_given > 0:
        first = np.int64(model.home_topic[chosen[0]])
    state += GOLDEN
    second = draw_alias(mix(state), model.topics.sizes)
    state += GOLDEN
    if (mix(state) >> SHIFT_32) >= chances.two_topics:
        second = first
    return state, first, second


@jit_inline
def draw_labels(state, chosen, n_given, first, second, chances, model):
    """Fill `chosen` (its first n_given entries are given) with distinct labels of two topics; returns the state."""
    topics, labels, p_stray = model.topics, model.labels, chances.stray
    n_labels = len(labels.threshold)
    n = n_given
    in_vain = 0
    while n < len(chosen):
        state += GOLDEN
        bits = mix(state)
        state += GOLDEN
        if in_vain < PATIENCE and (bits >> SHIFT_32) >= p_stray:
            topic = second if (bits & LOW_8) < SECOND else first
            label = draw_in_topic(mix(state), topic, topics)
        else:
            label = draw_alias(mix(state), labels)
        known = False
        for j in range(n):
            if chosen[j] == label:
                known = True
                break
        if known:
            in_vain += 1
            if in_vain < 16 * PATIENCE:
                continue
            while known:  # nearly all labels are taken: use the next free one
                label = (label + 1) % n_labels
                known = False
                for j in range(n):
                    if chosen[j] == label:
                        known = True
        chosen[n] = label
        n += 1
        in_vain = 0
    return state


@jit_inline
def draw_visible(state, chosen, chances, visible):
    """(state, how many): copy the labels that add words to the row into `visible`."""
    n_visible = 0
    for j in range(min(len(chosen), len(visible))):
        state += GOLDEN
        if (mix(state) >> SHIFT_32) >= chances.hidden:
            visible[n_visible] = chosen[j]
            n_visible += 1
    return state, n_visible


@jit_inline
def draw_words(state, visible, first, second, chances, model, words, count):
    """Fill `words` with distinct words of a row, and count how often each was drawn in `count` (zeros before).

    visible: the labels that add words. first, second: the row's topics.
    """
    background, word_of_rank, topic_words = model.background, model.word_of_rank, model.topic_words
    label_words, slot_of_byte = model.label_words, model.slot_of_byte
    n_features, n_visible = len(word_of_rank), len(visible)
    state += GOLDEN
    bits = mix(state)
    p_background = chances.background_low + (((bits >> SHIFT_32) * chances.background_width) >> SHIFT_32)
    genre = np.int64((bits & LOW_32) % chances.n_genres)
    state += GOLDEN
    shift = scale(mix(state), max(n_visible, 1))
    n_words = 0
    patience = 40 * len(words)
    while n_words < len(words):
        state += GOLDEN
        bits = mix(state)
        state += GOLDEN
        choice = mix(state)
        patience -= 1
        if patience < 0:  # the row's vocabulary is exhausted: any word
            word = scale(choice, n_features)
        elif (bits >> SHIFT_32) < p_background:
            rank = draw_alias(choice, background)
            if (bits & LOW_32) < chances.genre:  # the same curve over another order of the words
                rank = (rank * 7919 + (genre + 1) * 104729) % n_features
            word = np.int64(word_of_rank[rank])
        elif n_visible == 0 or (bits & LOW_32) < chances.topic:
            topic = second if (choice & LOW_8) < SECOND else first
            u = choice >> SHIFT_32
            place = scale(u * u, topic_words.shape[1])  # the first words more often
            word = np.int64(topic_words[topic, place])
        else:  # a row is more about some of its labels than about others
            u = choice >> SHIFT_32
            j = (scale(u * ((u >> np.uint64(1)) + HALF), n_visible) + shift) % n_visible
            word = np.int64(label_words[visible[j], slot_of_byte[choice & LOW_8]])
        if count[word] == 0:
            words[n_words] = word
            n_words += 1
        count[word] += 1


@jit_inline
def weigh_words(words, model, count, values):
    """L2-normalised TF-IDF values of the words of a row; sets their counts back to zero."""
    tf_weight, idf = model.tf_weight, model.idf
    square = 0.0
    for j in range(len(words)):
        word = words[j]
        v = tf_weight[min(count[word], MAX_TF)] * idf[word]
        values[j] = v
        square += v * v
        count[word] = 0
    length = np.sqrt(square)
    for j in range(len(words)):  # six decimals after the point: what such files usually print
        values[j] = max(np.rint(values[j] / length * 1e6), 1.0) / 1e6


@jit
def sample_rows(key, first_row, chances, model, given, labels, features, values):
    """Labels, words and L2-normalised TF-IDF values of consecutive rows.

    given: labels that the rows surely have. labels, features: RowLists whose indptr sets the lengths of the rows and
    whose indices are filled, as are the values of the features.
    """
    count = np.zeros(len(model.idf), np.int32)
    visible = np.empty(MOST_VISIBLE, np.int64)
    for i in range(len(labels.indptr) - 1):
        state = mix(key + np.uint64(first_row + i) * GOLDEN)
        chosen = labels.indices[labels.indptr[i] : labels.indptr[i + 1]]
        n_given = 0
        for j in range(given.indptr[i], given.indptr[i + 1]):
            chosen[n_given] = given.indices[j]
            n_given += 1
        state, first, second = draw_topics(state, chosen, n_given, chances, model)
        state = draw_labels(state, chosen, n_given, first, second, chances, model)
        state, n_visible = draw_visible(state, chosen, chances, visible)
        words = features.indices[features.indptr[i] : features.indptr[i + 1]]
        draw_words(state, visible[:n_visible], first, second, chances, model, words, count)
        words.sort()
        chosen.sort()
        weigh_words(words, model, count, values[features.indptr[i] : features.indptr[i + 1]])
