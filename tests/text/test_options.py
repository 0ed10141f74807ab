"""Options: defaults and names are scikit-learn's, wrong ones are refused."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer

from tests.text.oracles import THEIR_NAMES
from xpipe.errors import ConfigError
from xpipe.text import Vectorizer, VectorizerOptions
from xpipe.text.english import ENGLISH
from xpipe.text.options import FIXED


def test_defaults_are_scikit_learns():
    theirs = {name: parameter.default for name, parameter in inspect.signature(TfidfVectorizer).parameters.items()}
    ours = {THEIR_NAMES.get(name, name): value for name, value in Vectorizer().get_params().items()}
    assert {**FIXED, **ours, "dtype": np.float64} == theirs
    Vectorizer(**{name: value for name, value in theirs.items() if name != "dtype"})


def test_english_is_scikit_learns():
    assert tuple(sorted(ENGLISH_STOP_WORDS)) == ENGLISH


def test_params_make_the_same_vectorizer():
    given = {"min_df": 2, "ngrams": [1, 2], "stop_words": {"b", "a"}, "norm": None}
    params = Vectorizer(**given).get_params()
    assert params["stop_words"] == ["a", "b"]
    assert Vectorizer(**params).options == Vectorizer(**given).options


def test_scikit_learns_names():
    assert Vectorizer(ngram_range=(1, 2), sublinear_tf=True).options == VectorizerOptions(ngrams=(1, 2), sublinear=True)
    assert Vectorizer(min_df=np.int64(3), max_df=np.float32(0.5)).options == VectorizerOptions(min_df=3, max_df=0.5)


@pytest.mark.parametrize("given", [
    {"min_df": 0}, {"min_df": -0.1}, {"max_df": 1.5}, {"max_df": True}, {"min_df": "3"}, {"min_df": float("nan")},
    {"max_features": 0}, {"max_features": 2.0}, {"max_features": 2**31}, {"ngrams": 2}, {"ngrams": (2, 1)},
    {"ngrams": (0, 1)}, {"ngrams": (1, 2, 3)}, {"ngrams": (1, 300)}, {"ngrams": "12"}, {"lowercase": 1},
    {"sublinear": None}, {"stop_words": "french"}, {"stop_words": ["a", 3]}, {"stop_words": 5}, {"norm": "l3"},
    {"norm": "none"}, {"binary": "yes"}, {"analyzer": "char"}, {"token_pattern": r"\\w+"}, {"tokenizer": str.split},
    {"strip_accents": "unicode"}, {"dtype": np.float64}, {"ngrams": (1, 1), "ngram_range": (1, 1)}, {"min_fd": 3},
])  # fmt: skip
def test_wrong_options(given):
    with pytest.raises(ConfigError):
        Vectorizer(**given)


def test_a_mistyped_name_gets_a_hint():
    with pytest.raises(ConfigError, match="min_df"):
        Vectorizer(min_fd=3)
