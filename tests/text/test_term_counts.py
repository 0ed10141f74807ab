"""Counts of chunks: merged in any way they are those of all texts; files of them are checked."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mutations import mutations
from tests.text.oracles import words_of
from tests.text.strategies import corpora
from xpipe.errors import DataError
from xpipe.text import TermCounts, Vectorizer

SOME = ["The apple, the egg", "egg Ärger ΣΑΣ", "", "a long-winded internationalisation egg"]


@given(corpora, st.randoms())
@settings(max_examples=40)
def test_are_those_of_python(corpus, draw):
    counts = Vectorizer().count(corpus, threads=1)
    texts, uses = Counter(), Counter()
    for text in corpus:
        words = words_of(text)
        texts.update(set(words))
        uses.update(words)
    assert counts.terms.to_pylist() == sorted(texts)
    assert counts.document_frequency.tolist() == [texts[term] for term in sorted(texts)]
    assert counts.term_frequency.tolist() == [uses[term] for term in sorted(texts)]
    assert counts.n_documents == len(corpus)


def test_chunks_and_their_order_change_nothing():
    draw = random.Random(0)
    corpus = [
        " ".join(draw.choices(["apple", "egg", "Σας", "internationalisation", "x" * 40, "it"], k=9)) for _ in range(40)
    ]
    ours = Vectorizer(ngrams=(1, 2), stop_words=["it"])
    expected = ours.count(corpus).to_arrow()
    for size in (1, 3, 7, 40):
        pieces = [ours.count(corpus[start : start + size], threads=1) for start in range(0, 40, size)]
        draw.shuffle(pieces)
        assert TermCounts.merge(pieces).to_arrow().equals(expected, check_metadata=True)
        halves = TermCounts.merge(pieces[::2]), TermCounts.merge(pieces[1::2]) if size < 40 else ours.count([])
        assert TermCounts.merge(halves).to_arrow().equals(expected, check_metadata=True)


def test_fit_counts_is_fit(tmp_path):
    for chosen in ({}, {"min_df": 2, "ngrams": (1, 2)}, {"max_features": 3}, {"max_df": 0.5, "sublinear": True}):
        ours = Vectorizer(**chosen)
        pieces = [ours.count(SOME[:1]), ours.count(SOME[1:])]
        pieces[0].write(tmp_path / "counts.parquet")
        pieces[0] = TermCounts.read(tmp_path / "counts.parquet")
        rows = ours.fit_counts(TermCounts.merge(pieces), n_documents=4).transform(SOME)
        other = Vectorizer(**chosen)
        expected = other.fit_transform(SOME)
        assert ours.vocabulary == other.vocabulary
        for name in ("indptr", "indices", "data"):
            assert getattr(rows, name).tobytes() == getattr(expected, name).tobytes()


def test_only_counts_that_belong_together():
    with pytest.raises(DataError, match="no counts"):
        TermCounts.merge([])
    for other in ({"ngrams": (1, 2)}, {"lowercase": False}, {"stop_words": ["egg"]}):
        with pytest.raises(DataError, match="belong together"):
            TermCounts.merge([Vectorizer().count(SOME), Vectorizer(**other).count(SOME)])
        with pytest.raises(DataError, match="other options"):
            Vectorizer().fit_counts(Vectorizer(**other).count(SOME))
    with pytest.raises(DataError, match="of 4 texts, not of 5"):
        Vectorizer().fit_counts(Vectorizer().count(SOME), 5)
    TermCounts.merge([Vectorizer().count(SOME), Vectorizer(min_df=3, norm=None).count(SOME)])


def test_the_same_counts_give_the_same_bytes(tmp_path):
    for name, threads in (("a", 1), ("b", 3)):
        Vectorizer().count(SOME, threads=threads).write(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def wrong_tables() -> dict[str, pa.Table]:
    """Tables that are no counts, each with one thing wrong."""
    right = Vectorizer().count(["apple egg", "egg"]).to_arrow()

    def column(number: int, values: list, kind: pa.DataType) -> pa.Table:
        return right.set_column(number, right.schema.field(number).with_type(kind), pa.array(values, kind))

    def about(**facts: str) -> pa.Table:
        return right.replace_schema_metadata({**right.schema.metadata, **{k.encode(): v for k, v in facts.items()}})

    text, number = pa.large_string(), pa.int64()
    return {
        "no metadata": right.replace_schema_metadata(None),
        "format": about(format="other"),
        "n_documents": about(n_documents="-1"),
        "too few texts": about(n_documents="1"),
        "no column": right.drop_columns(["term_frequency"]),
        "type": column(1, ["a", "b"], pa.string()),
        "null term": column(0, ["apple", None], text),
        "order": column(0, ["egg", "apple"], text),
        "twice": column(0, ["egg", "egg"], text),
        "space": column(0, ["apple", "egg "], text),
        "two spaces": column(0, ["apple", "egg  egg"], text),
        "empty": column(0, ["", "egg"], text),
        "short": column(0, ["a", "egg"], text),
        "zero byte": column(0, ["apple\0", "egg"], text),
        "null count": column(1, [1, None], number),
        "no text": column(1, [1, 0], number),
        "uses": column(2, [1, 1], number),
    }


@pytest.mark.parametrize("name", wrong_tables())
def test_wrong_tables(name, tmp_path):
    table = wrong_tables()[name]
    with pytest.raises(DataError, match="not term counts"):
        TermCounts.from_arrow(table)
    pq.write_table(table, tmp_path / "counts.parquet")
    with pytest.raises(DataError):
        TermCounts.read(tmp_path / "counts.parquet")


def test_damaged_files(tmp_path):
    path = tmp_path / "counts.parquet"
    whole = Vectorizer().count(SOME)
    whole.write(path)
    content = path.read_bytes()
    for mutation in mutations(content, seed=0, count=60):
        path.write_bytes(mutation.content)
        try:
            found = TermCounts.read(path)
        except DataError:
            continue
        assert found.to_arrow().equals(whole.to_arrow()), mutation.how  # checksums tell all but changed metadata
    with pytest.raises(DataError, match="missing"):
        TermCounts.read(tmp_path / "nowhere.parquet")
