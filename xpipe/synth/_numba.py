"""Kernels of `synth`: labels and words of the rows of one piece, from a counter-based generator.

Holds no model building and no files. Every row has a generator of its own, so a row does not depend on its neighbours.
"""

from __future__ import annotations

import numpy as np

from xpipe.ground.accelerate import jit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
SHIFT_30, SHIFT_27, SHIFT_31, SHIFT_32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)
LOW_32 = np.uint64(0xFFFFFFFF)
HALF = np.uint64(1 << 31)
LOW_8 = np.uint64(0xFF)
SECOND = np.uint64(102)  # out of 256 draws, those from a row's second topic
MAX_TF = 64  # term counts above it weigh the same
PATIENCE = 12  # draws in vain before a row looks for labels outside its topics


@jit
def mix(state):
    """The output function of splitmix64."""
    z = (state ^ (state >> SHIFT_30)) * MIX_1
    z = (z ^ (z >> SHIFT_27)) * MIX_2
    return z ^ (z >> SHIFT_31)


@jit
def scale(bits, n):
    """The upper 32 of 64 random bits as an integer in 0..n-1 (n < 2**31)."""
    return np.int64(((bits >> SHIFT_32) * np.uint64(n)) >> SHIFT_32)


@jit
def draw_alias(bits, threshold, alias):
    """One item of a Walker alias table: the upper bits choose the cell, the lower bits the cell's item or its alias."""
    cell = scale(bits, len(threshold))
    return np.int64(alias[cell]) if (bits & LOW_32) >= np.uint64(threshold[cell]) else cell


@jit
def fill_alias(weights, threshold, alias):
    """Walker's alias table of weights with mean 1 (destroyed); threshold uint32 in units of 2**-32."""
    n = len(weights)
    small = np.empty(n, np.int64)
    large = np.empty(n, np.int64)
    n_small = 0
    n_large = 0
    for i in range(n):
        threshold[i] = 0xFFFFFFFF
        alias[i] = i
        if weights[i] < 1.0:
            small[n_small] = i
            n_small += 1
        else:
            large[n_large] = i
            n_large += 1
    while n_small > 0 and n_large > 0:
        n_small -= 1
        s = small[n_small]
        b = large[n_large - 1]
        threshold[s] = np.uint32(min(weights[s] * 4294967296.0, 4294967295.0))
        alias[s] = b
        weights[b] -= 1.0 - weights[s]
        if weights[b] < 1.0:
            n_large -= 1
            small[n_small] = b
            n_small += 1


@jit
def draw_in_topic(bits, topic, topic_indptr, topic_limit, topic_label):
    """One label of the topic by its share; `topic_limit` holds cumulated shares in units of 2**-32."""
    lo = topic_indptr[topic]
    hi = topic_indptr[topic + 1] - 1
    u = bits >> SHIFT_32
    while lo < hi:
        middle = (lo + hi) // 2
        if u < np.uint64(topic_limit[middle]):
            hi = middle
        else:
            lo = middle + 1
    return np.int64(topic_label[lo])


@jit
def draw_labels(
    state, chosen, n_given, first, second, p_stray, topic_indptr, topic_limit, topic_label, any_threshold, any_alias
):
    """Fill `chosen` (its first n_given entries are given) with distinct labels of two topics; returns the generator."""
    n = n_given
    in_vain = 0
    while n < len(chosen):
        state += GOLDEN
        bits = mix(state)
        state += GOLDEN
        if in_vain < PATIENCE and (bits >> SHIFT_32) >= p_stray:
            topic = second if (bits & LOW_8) < SECOND else first
            label = draw_in_topic(mix(state), topic, topic_indptr, topic_limit, topic_label)
        else:
            label = draw_alias(mix(state), any_threshold, any_alias)
        known = False
        for j in range(n):
            if chosen[j] == label:
                known = True
                break
        if known:
            in_vain += 1
            if in_vain < 16 * PATIENCE:
                continue
            while known:  # nearly all labels taken: the next free one
                label = (label + 1) % len(any_threshold)
                known = False
                for j in range(n):
                    if chosen[j] == label:
                        known = True
        chosen[n] = label
        n += 1
        in_vain = 0
    return state


@jit
def sample_rows(
    key, first_row, chances, given_indptr, given_label,
    topic_threshold, topic_alias, topic_indptr, topic_limit, topic_label, any_threshold, any_alias, home_topic,
    word_threshold, word_alias, word_of_rank, label_words, slot_of_byte, topic_words, idf, tf_weight,
    label_indptr, feature_indptr, label_indices, feature_indices, values,
):  # fmt: skip
    """Labels, words and L2-normalised TF-IDF values of rows whose lengths are given by the two indptr."""
    n_rows = len(label_indptr) - 1
    n_features = len(idf)
    p_two, p_stray, p_hidden, background_low, background_width, p_topic, p_genre, n_genres = chances
    count = np.zeros(n_features, np.int32)
    visible = np.empty(4096, np.int64)
    for i in range(n_rows):
        state = mix(key + np.uint64(first_row + i) * GOLDEN)
        chosen = label_indices[label_indptr[i] : label_indptr[i + 1]]
        n_given = 0
        for j in range(given_indptr[i], given_indptr[i + 1]):
            chosen[n_given] = given_label[j]
            n_given += 1

        state += GOLDEN
        first = draw_alias(mix(state), topic_threshold, topic_alias)
        if n_given > 0:
            first = np.int64(home_topic[chosen[0]])
        state += GOLDEN
        second = draw_alias(mix(state), topic_threshold, topic_alias)
        state += GOLDEN
        bits = mix(state)
        if (bits >> SHIFT_32) >= p_two:
            second = first
        state = draw_labels(state, chosen, n_given, first, second, p_stray, topic_indptr, topic_limit, topic_label,
                            any_threshold, any_alias)  # fmt: skip

        n_visible = 0
        for j in range(min(len(chosen), len(visible))):
            state += GOLDEN
            if (mix(state) >> SHIFT_32) >= p_hidden:
                visible[n_visible] = chosen[j]
                n_visible += 1
        state += GOLDEN
        bits = mix(state)
        p_background = background_low + (((bits >> SHIFT_32) * background_width) >> SHIFT_32)
        genre = np.int64((bits & LOW_32) % n_genres)
        state += GOLDEN
        shift = scale(mix(state), max(n_visible, 1))

        words = feature_indices[feature_indptr[i] : feature_indptr[i + 1]]
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
                rank = draw_alias(choice, word_threshold, word_alias)
                if (bits & LOW_32) < p_genre:  # the same curve over another order of the words
                    rank = (rank * 7919 + (genre + 1) * 104729) % n_features
                word = np.int64(word_of_rank[rank])
            elif n_visible == 0 or (bits & LOW_32) < p_topic:
                topic = second if (choice & LOW_8) < SECOND else first
                u = choice >> SHIFT_32
                word = np.int64(topic_words[topic, scale(u * u, topic_words.shape[1])])  # the first ones more often
            else:
                # a row is more about some of its labels than about others
                u = choice >> SHIFT_32
                j = (scale(u * ((u >> np.uint64(1)) + HALF), n_visible) + shift) % n_visible
                word = np.int64(label_words[visible[j], slot_of_byte[choice & LOW_8]])
            if count[word] == 0:
                words[n_words] = word
                n_words += 1
            count[word] += 1

        words.sort()
        chosen.sort()
        square = 0.0
        out = values[feature_indptr[i] : feature_indptr[i + 1]]
        for j in range(n_words):
            word = words[j]
            v = tf_weight[min(count[word], MAX_TF)] * idf[word]
            out[j] = v
            square += v * v
            count[word] = 0
        length = np.sqrt(square)
        for j in range(n_words):  # six decimals after the point: what such files usually print
            out[j] = max(np.rint(out[j] / length * 1e6), 1.0) / 1e6
