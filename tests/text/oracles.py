"""Slow, obviously right twins: scikit-learn's TfidfVectorizer, and the words and characters that Python finds."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer

THEIR_NAMES = {"ngrams": "ngram_range", "sublinear": "sublinear_tf"}


def their_vectorizer(options: dict[str, Any]) -> TfidfVectorizer:
    """scikit-learn's, with our options under its names."""
    return TfidfVectorizer(**{THEIR_NAMES.get(name, name): value for name, value in options.items()})


def words_of(text: str, lowercase: bool = True) -> list[str]:
    """The words of a text, as scikit-learn's default pattern finds them."""
    return re.findall(r"(?u)\b\w\w+\b", text.lower() if lowercase else text)


def character_of(code: int) -> int:
    """The lower case of a code point if it is of a word, else 0, as Python has it for the character alone."""
    letter = chr(code).lower()
    return ord(letter) if letter.isalnum() or letter == "_" else 0


def assert_same(ours: sp.csr_matrix, theirs: sp.csr_matrix) -> None:
    """The same entries, values to 1e-6 of their size."""
    theirs = sp.csr_matrix(theirs)
    theirs.sort_indices()
    assert ours.shape == theirs.shape
    assert ours.dtype == np.float32
    assert ours.indptr.tolist() == theirs.indptr.tolist()
    assert ours.indices.tolist() == theirs.indices.tolist()
    np.testing.assert_allclose(ours.data, theirs.data, rtol=1e-6, atol=1e-6)
