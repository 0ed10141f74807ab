"""The vectorizer against scikit-learn's: every option, nasty Unicode, every form of texts, whatever the chunks."""

from __future__ import annotations

import random
import sys
import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xpipe
from tests.text.oracles import assert_same, their_vectorizer, words_of
from tests.text.strategies import NASTY, PIECES, corpora, options, texts
from xpipe.errors import ConfigError, DataError
from xpipe.text import Vectorizer, chunks

SOME = ["The apple — the EGG", "egg, egg; Ärger!", "", "ΣΑΣ apple İstanbul", "apple egg apple 中文字"]


@pytest.fixture(autouse=True)
def _quiet():
    """scikit-learn warns of stop words that its own preprocessing changes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Your stop_words may be inconsistent")
        yield


def compare(corpus: list[str], others: list[str], chosen: dict) -> None:
    """Ours and theirs refuse, or give the same vocabulary and rows."""
    theirs, ours = their_vectorizer(chosen), Vectorizer(**chosen)
    try:
        rows = theirs.fit_transform(corpus)
    except ValueError:
        with pytest.raises((DataError, ConfigError)):
            ours.fit_transform(corpus)
        with pytest.raises((DataError, ConfigError)):
            ours.fit(corpus)
        return
    assert_same(ours.fit_transform(corpus, threads=1), rows)
    assert ours.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()
    assert ours.vocabulary == theirs.vocabulary_
    if chosen.get("use_idf", True):
        np.testing.assert_allclose(ours.idf, theirs.idf_, rtol=1e-14)
    assert_same(Vectorizer(**chosen).fit(corpus, threads=1).transform(others, threads=1), theirs.transform(others))


@given(corpora, st.lists(texts, max_size=3), options())
@settings(max_examples=150)
def test_is_scikit_learns(corpus, others, chosen):
    compare(corpus, [*others, *corpus[:1]], chosen)


@pytest.mark.parametrize("seed", range(3))
def test_is_scikit_learns_on_random_texts(seed):
    """Longer texts than hypothesis makes: words at every place of a block of 64 bytes."""
    draw = random.Random(seed)
    alphabet = ["".join(draw.choices(NASTY, k=draw.randint(1, 6))) for _ in range(40)] + PIECES
    corpus = [draw.choice(" -.é").join(draw.choices(alphabet, k=draw.randint(0, 200))) for _ in range(60)]
    for chosen in ({}, {"ngrams": (1, 3), "min_df": 2, "stop_words": ["the", "it"]}, {"max_features": 30},
                   {"lowercase": False, "sublinear": True, "ngrams": (2, 2), "norm": "l1"}):  # fmt: skip
        compare(corpus[:50], corpus[50:], chosen)


def test_every_character_in_a_word_and_alone():
    """Each code point between letters, between capitals, and at the end of a text."""
    codes = [code for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    whole = [
        f"ab{chr(code)}cd {chr(code)}{chr(code)} A{chr(code)}" for code in codes if code < 0x3000 or code % 97 == 0
    ]
    for part in ([text for text in whole if "Σ" not in text and "İ" not in text], ["aΣ", "aΣ b", "ΣΣ", "İİ aİ"]):
        counts = Vectorizer().count(part)
        expected = [set(words_of(text)) for text in part]
        assert counts.terms.to_pylist() == sorted(set().union(*expected))
        assert counts.document_frequency.sum() == sum(map(len, expected))


def test_a_term_used_more_often_than_a_byte_counts():
    corpus = ["word " * 300 + "egg", "word egg", "egg " * 70_000]
    for chosen in ({"sublinear": True}, {"norm": None}, {"binary": True}):
        compare(corpus, corpus, chosen)


def test_ties_of_max_features():
    corpus = [" ".join(f"w{i:03d}" for i in range(start, start + 40)) for start in range(0, 200, 7)]
    for most in (1, 5, 17, 100, 150, 1000):
        compare(corpus, corpus, {"max_features": most})
        compare(corpus, corpus, {"max_features": most, "binary": True, "min_df": 2})


FORMS = {
    "list": list,
    "tuple": tuple,
    "generator": iter,
    "objects": lambda texts: np.array(texts, dtype=object),
    "numpy strings": np.array,
    "arrow": pa.array,
    "large": lambda texts: pa.array(texts, pa.large_string()),
    "view": lambda texts: pa.array(texts, pa.string_view()),
    "dictionary": lambda texts: pa.array(texts).dictionary_encode(),
    "slice": lambda texts: pa.array(["no", *texts, "no"]).slice(1, len(texts)),
    "chunked": lambda texts: pa.chunked_array([texts[:2], [], texts[2:]], pa.string()),
    "stream of arrays": lambda texts: iter([pa.array(texts[:1]), pa.chunked_array([texts[1:2]]), *texts[2:3],
                                            pa.array(texts[3:])]),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_texts(form):
    expected = Vectorizer().fit_transform(SOME)
    assert_same(Vectorizer().fit_transform(FORMS[form](SOME)), expected)
    assert_same(Vectorizer().fit(FORMS[form](SOME)).transform(FORMS[form](SOME)), expected)


def test_neither_chunks_nor_threads_change_a_byte(monkeypatch):
    draw = random.Random(0)
    corpus = [" ".join(draw.choices(PIECES, k=30)) + f" n{i} {i % 7}Σ{i % 5}" for i in range(200)]
    expected, whole = Vectorizer(ngrams=(1, 2)), None
    for size, threads in ((1 << 22, 1), (1, 1), (1, 3), (1000, 2), (5000, 4)):
        monkeypatch.setattr(chunks.text_chunks, "__defaults__", (size,))
        ours = Vectorizer(ngrams=(1, 2))
        rows = ours.fit_transform(pa.array(corpus), threads=threads)
        again = Vectorizer(ngrams=(1, 2)).fit(pa.array(corpus), threads=threads).transform(corpus, threads=threads)
        found = [rows.indptr, rows.indices, rows.data, ours.idf, ours.document_frequency]
        found = [array.tobytes() for array in [*found, again.indptr, again.indices, again.data]]
        whole = whole or found
        assert found == whole
    monkeypatch.undo()
    assert_same(expected.fit_transform(corpus), their_vectorizer({"ngrams": (1, 2)}).fit_transform(corpus))


def test_tables_grow_in_the_middle_of_a_text(monkeypatch):
    monkeypatch.setattr(xpipe.text.term_table.TermTable.__init__, "__defaults__", (1, 0))
    draw = random.Random(1)
    corpus = [" ".join(draw.choice("abc") * draw.randint(1, 90) for _ in range(40)) for _ in range(8)]
    compare(corpus, corpus, {"ngrams": (1, 3)})


def test_words_with_the_same_tag_are_told_apart(monkeypatch):
    """A tag of long words may be that of several: here it is, for all of them."""
    from xpipe.text import _terms_numba
    from xpipe.text._terms_numba import LONG, N_TERMS
    from xpipe.text.term_table import TermTable

    table, numbers = TermTable(), np.arange(1, 9, dtype=np.uint64)
    found = []
    for start in (0, 2, 4, 0, 2, 4):
        term, place = _terms_numba.find(table.arrays, np.uint64(7), LONG, numbers, start, 2)
        if term < 0:
            term = _terms_numba.add(table.arrays, table.state, place, np.uint64(7), LONG, start, 2, 1, numbers)
        found.append(int(term))
    assert found == [0, 1, 2, 0, 1, 2]
    assert table.state[N_TERMS] == 3


BAD_TEXTS = {
    "null in a list": (["a", None], "row 1"),
    "nan": (["a", float("nan")], "row 1"),
    "number": (["aa", "bb", 3], "row 2"),
    "bytes": ([b"aa"], "row 0"),
    "null in arrow": (pa.array(["aa", "bb", None]), "row 2"),
    "null in a later chunk": (pa.chunked_array([["aa"], ["bb", None]]), "row 2"),
    "only nulls": (pa.nulls(3), "row 0"),
    "not UTF-8": (pa.array([b"fine", b"b\xff\xfe"]).view(pa.string()), "row 1"),
    "cut UTF-8": (pa.array([b"ab\xe2\x82"]).view(pa.string()), "row 0"),
    "encoded surrogate": (pa.array([b"ab\xed\xa0\x80"]).view(pa.string()), "row 0"),
    "overlong": (pa.array([b"ab\xc0\xaf"]).view(pa.string()), "row 0"),
    "above Unicode": (pa.array([b"ab\xf4\x90\x80\x80"]).view(pa.string()), "row 0"),
    "numbers in arrow": (pa.array([1, 2]), "int64"),
    "binary": (pa.array([b"a"]), "binary"),
    "one text": ("a text", "several"),
    "no iterable": (3, "int"),
    "table": (np.array([["a"]]), "shape"),
    "numpy numbers": (np.arange(3), "int64"),
    "numpy nulls": (np.array(["aa", None], dtype=object), "row 1"),
}


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_bad_texts(name):
    texts_given, message = BAD_TEXTS[name]
    with pytest.raises(DataError, match=message):
        Vectorizer().fit_transform(texts_given)
    with pytest.raises(DataError, match=message):
        Vectorizer().fit(["fine texts"]).transform(texts_given)


@pytest.mark.parametrize(("corpus", "chosen", "error"), [
    ([], {}, DataError), (["a b c", "!"], {}, DataError), (["the and"], {"stop_words": "english"}, DataError),
    (["one two"], {"ngrams": (3, 3)}, DataError), (["aa", "bb"], {"min_df": 2}, ConfigError),
    (["aa", "aa"], {"max_df": 1}, ConfigError), (["aa"] * 4, {"min_df": 3, "max_df": 0.5}, ConfigError),
])  # fmt: skip
def test_no_vocabulary(corpus, chosen, error):
    for method in ("fit", "fit_transform"):
        with pytest.raises(error):
            getattr(Vectorizer(**chosen), method)(corpus)


def test_texts_without_known_terms_have_empty_rows():
    rows = Vectorizer().fit(["apple egg"]).transform(["", "pear", "egg", "?"])
    assert rows.indptr.tolist() == [0, 0, 0, 1, 1]
    assert Vectorizer().fit(["apple"]).transform([]).shape == (0, 1)


def test_a_stream_is_read_as_it_is_used(monkeypatch):
    """No more than a few chunks are waiting: what is counted is let go."""
    monkeypatch.setattr(chunks, "CHUNK_TEXTS", 10)
    taken: list[int] = []
    done: list[int] = []
    from xpipe.text import counting

    real = counting.Counter.count
    monkeypatch.setattr(
        counting.Counter, "count", lambda self, chunk, keep: (done.append(1), real(self, chunk, keep))[1]
    )

    def stream():
        for i in range(1000):
            taken.append(i)
            assert len(taken) <= 10 * (len(done) + 8)
            yield f"word{i} egg"

    assert Vectorizer().fit(stream(), threads=2).n_documents == 1000


def test_must_be_fitted():
    for act in (lambda v: v.transform(["a"]), lambda v: v.vocabulary, lambda v: v.save("x"),
                lambda v: v.get_feature_names_out(), lambda v: v.idf):  # fmt: skip
        with pytest.raises(ConfigError, match="not fitted"):
            act(Vectorizer())


def test_a_second_fit_forgets_the_first():
    ours = Vectorizer().fit(["apple egg"])
    assert ours.transform(["apple"]).nnz == 1
    assert ours.vocabulary == {"apple": 0, "egg": 1}
    ours.fit(["pear"])
    assert ours.vocabulary == {"pear": 0}
    assert ours.transform(["apple pear"]).toarray().tolist() == [[1.0]]
