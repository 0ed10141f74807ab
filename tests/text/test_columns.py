"""Numbers and categories as features: chunks together show what all rows show; unseen values have no feature."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from xpipe.errors import DataError
from xpipe.text import ColumnFeatures, TableVectorizer, Vectorizer

PRICES = [2.0, None, -8.0, 0.0, 4.0]
COLOURS = ["red", "green", None, "red", "blue"]


def columns(start=0, stop=None):
    return {"price": pa.array(PRICES[start:stop], pa.float64())}, {"colour": pa.array(COLOURS[start:stop], pa.string())}


@pytest.mark.parametrize("cuts", [[0, 5], [0, 1, 2, 3, 4, 5], [0, 3, 5]])
def test_chunks_together_show_what_all_rows_show(cuts):
    parts = [ColumnFeatures.count(*columns(start, stop)) for start, stop in pairwise(cuts)]
    assert ColumnFeatures.merge(reversed(parts)) == ColumnFeatures.count(*columns())


def test_rows_of_features():
    features = ColumnFeatures.count(*columns())
    names = ["price", "price is missing", "colour=blue", "colour=green", "colour=red", "colour is missing"]
    assert features.names() == names
    found = features.transform(*columns(), 5).toarray()
    assert found[:, 0].tolist() == [0.25, 0, -1, 0, 0.5]
    assert found[:, 1].tolist() == [0, 1, 0, 0, 0]
    assert found[:, 2:].tolist() == [[0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [1, 0, 0, 0]]


def test_what_training_rows_lack_has_no_feature():
    features = ColumnFeatures.count({"n": pa.array([0.0, 0.0])}, {"c": pa.array(["x", "x"])})
    assert features.names() == ["n", "c=x"]
    X = features.transform({"n": pa.array([3.0, None])}, {"c": pa.array(["y", None])}, 2)
    assert X.nnz == 0
    assert X.shape == (2, 2)


def test_a_saved_table_vectorizer_gives_the_same_rows(tmp_path):
    texts = ["pea soup", "rye bread", "pea", "soup", "rye"]
    vectorizer = TableVectorizer(Vectorizer(min_df=2).fit(texts), ColumnFeatures.count(*columns()))
    vectorizer.save(str(tmp_path))
    loaded = TableVectorizer.load(str(tmp_path))
    X, again = (each.transform(texts, *columns()) for each in (vectorizer, loaded))
    assert X.shape == (5, 3 + 6)
    assert X.dtype == np.float32
    assert X.has_sorted_indices
    assert np.array_equal(X.toarray(), again.toarray())
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "columns.json",
        "vectorizer.json",
        "vocabulary.parquet",
    ]
    content = json.loads((tmp_path / "columns.json").read_text())
    content["numbers"]["price"]["largest"] = "much"
    (tmp_path / "columns.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="columns"):
        TableVectorizer.load(str(tmp_path))


def test_columns_without_texts(tmp_path):
    vectorizer = TableVectorizer(None, ColumnFeatures.count(*columns()))
    vectorizer.save(str(tmp_path))
    assert TableVectorizer.load(str(tmp_path)).transform([""] * 5, *columns()).shape == (5, 6)
