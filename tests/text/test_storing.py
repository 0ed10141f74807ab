"""Saved vectorizers: the same rows and bytes again; files that are damaged or do not fit are refused."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.mutations import mutations
from xpipe.errors import DataError
from xpipe.ground import files
from xpipe.text import Vectorizer

SOME = ["The apple, the egg", "egg Ärger ΣΑΣ", "", "apple internationalisation egg"]
CHOSEN = {
    "plain": {},
    "all": {"min_df": 0.2, "max_df": 3, "max_features": 5, "ngrams": (1, 2), "lowercase": False, "sublinear": True,
            "stop_words": ["the"], "norm": "l1", "binary": True, "use_idf": True, "smooth_idf": False},
    "english": {"stop_words": "english", "use_idf": False, "norm": None, "max_df": 1.0, "min_df": 1},
}  # fmt: skip


@pytest.fixture
def saved(tmp_path):
    """A folder with a vectorizer."""
    Vectorizer(ngrams=(1, 2)).fit(SOME).save(tmp_path / "whole")
    return tmp_path / "whole"


@pytest.mark.parametrize("name", CHOSEN)
def test_gives_the_same_rows_and_files(name, tmp_path):
    first = Vectorizer(**CHOSEN[name]).fit(SOME)
    first.save(tmp_path / "a")
    again = Vectorizer.load(tmp_path / "a")
    again.save(tmp_path / "b")
    assert again.options == first.options
    assert type(again.options.min_df) is type(first.options.min_df)
    assert again.vocabulary == first.vocabulary
    assert again.n_documents == 4
    assert again.document_frequency.tolist() == first.document_frequency.tolist()
    assert (again.transform(SOME) != first.transform(SOME)).nnz == 0
    for file in ("vocabulary.parquet", "vectorizer.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_the_vocabulary_is_a_plain_table(saved):
    table = pq.ParquetFile(saved / "vocabulary.parquet").read()
    assert table.schema.names == ["term", "document_frequency", "idf"]
    assert table["term"].to_pylist()[:2] == ["apple", "apple internationalisation"]


def set_json(**facts):
    def change(folder):
        path = folder / "vectorizer.json"
        about = json.loads(path.read_text())
        for name, value in facts.items():
            (about["params"] if name in about["params"] else about)[name] = value
        path.write_text(json.dumps(about))

    return change


def set_column(name, values, kind):
    def change(folder):
        path = folder / "vocabulary.parquet"
        table = pq.ParquetFile(path).read()
        place = table.schema.get_field_index(name)
        values_now = table[name].to_pylist()
        values_now[: len(values)] = values
        pq.write_table(table.set_column(place, name, pa.array(values_now, kind)), path)
        set_json(vocabulary_sha256=files.sha256(str(path)))(folder)

    return change


WRONG = {
    "no json": lambda folder: (folder / "vectorizer.json").unlink(),
    "no vocabulary": lambda folder: (folder / "vocabulary.parquet").unlink(),
    "not json": lambda folder: (folder / "vectorizer.json").write_text("{"),
    "format": set_json(format="xpipe vectorizer 9"),
    "digest": set_json(vocabulary_sha256="0" * 64),
    "number of terms": set_json(n_terms=3),
    "number of texts": set_json(n_documents=1),
    "negative": set_json(n_documents=-4),
    "min_df": set_json(min_df=-1),
    "text for a number": set_json(min_df="3"),
    "ngrams": set_json(ngrams=[2, 1]),
    "three numbers": set_json(ngrams=[1, 2, 3]),
    "norm": set_json(norm="l3"),
    "stop words": set_json(stop_words="french"),
    "idf of other options": set_json(smooth_idf=False),
    "order of terms": set_column("term", ["zebra"], pa.large_string()),
    "null term": set_column("term", [None], pa.large_string()),
    "no term": set_column("term", [""], pa.large_string()),
    "document frequency": set_column("document_frequency", [0], pa.int64()),
    "null frequency": set_column("document_frequency", [None], pa.int64()),
    "frequency and idf": set_column("document_frequency", [1], pa.int64()),
    "idf": set_column("idf", [7.0], pa.float64()),
    "no idf": set_column("idf", [None], pa.float64()),
    "nan": set_column("idf", [float("nan")], pa.float64()),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_files(name, saved):
    Vectorizer.load(saved)
    WRONG[name](saved)
    with pytest.raises(DataError):
        Vectorizer.load(saved)


def test_a_vocabulary_of_another_vectorizer(saved, tmp_path):
    Vectorizer().fit(["other words"]).save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "vocabulary.parquet", saved)
    with pytest.raises(DataError, match="not the file"):
        Vectorizer.load(saved)


@pytest.mark.parametrize("file", ["vocabulary.parquet", "vectorizer.json"])
def test_damaged_files(file, saved):
    content = (saved / file).read_bytes()
    expected = Vectorizer.load(saved).transform(SOME).shape
    for mutation in mutations(content, seed=1, count=40):
        (saved / file).write_bytes(mutation.content)
        try:
            found = Vectorizer.load(saved)
        except DataError:
            continue
        assert file == "vectorizer.json" or mutation.content == content  # a digest tells every other vocabulary
        assert found.transform(SOME).shape == expected
