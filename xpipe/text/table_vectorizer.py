"""Texts and further columns of a table as one matrix: a `Vectorizer` beside `ColumnFeatures`, kept in one folder.

Holds no reading of tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import scipy.sparse as sp

from xpipe.ground import files
from xpipe.ground.checked_json import dump_json, read_json
from xpipe.text.columns import ColumnFeatures, ColumnsContent
from xpipe.text.vectorizer import Vectorizer

COLUMNS_FILE = "columns.json"
TEXTS_FILE = "vectorizer.json"


class TableVectorizer:
    """Features of the rows of a table: those of their texts, then those of numbers and categories.

    Parameters
    ----------
    texts : Vectorizer, optional
        A fitted vectorizer; None where the table has no texts.
    columns : ColumnFeatures
        The features of numbers and categories; without any where the table has none.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from xpipe.text import ColumnFeatures, TableVectorizer, Vectorizer
    >>> price = {"price": pa.array([2.0, None])}
    >>> vectorizer = TableVectorizer(Vectorizer().fit(["pea soup", "rye bread"]), ColumnFeatures.count(price, {}))
    >>> vectorizer.transform(["pea soup", "rye bread"], price).shape
    (2, 6)
    """

    def __init__(self, texts: Vectorizer | None, columns: ColumnFeatures):
        self.texts, self.columns = texts, columns

    @property
    def n_features(self) -> int:
        """The number of features."""
        return self.n_terms + len(self.columns.names())

    @property
    def n_terms(self) -> int:
        """The number of features that are terms of texts."""
        return 0 if self.texts is None else len(self.texts.get_feature_names_out())

    def transform(
        self,
        texts: Any,
        numbers: Mapping[str, Any] | None = None,
        categories: Mapping[str, Any] | None = None,
        *,
        threads: int | None = None,
    ) -> sp.csr_matrix:
        """The features of some rows.

        Parameters
        ----------
        texts : sequence of str, or Array
            One text per row.
        numbers, categories : mapping of str to Array, optional
            Further columns, by name.
        threads : int, optional
            By default one per usable core. It changes no byte.

        Returns
        -------
        csr_matrix
            Rows x features, float32.
        """
        own = self.columns.transform(numbers or {}, categories or {}, len(texts))
        if self.texts is None:
            return own
        terms = self.texts.transform(texts, threads=threads)
        return terms if not own.shape[1] else sp.csr_matrix(sp.hstack([terms, own], format="csr"))

    def save(self, folder: str) -> None:
        """Write the vectorizer to a folder: vocabulary.parquet, vectorizer.json and columns.json."""
        if self.texts is not None:
            self.texts.save(folder)
        files.write_bytes(files.join(folder, COLUMNS_FILE), dump_json(self.columns.to_json()))

    @classmethod
    def load(cls, folder: str) -> TableVectorizer:
        """The vectorizer that `save` or stage vectorize wrote to a folder. Raises DataError where it is damaged."""
        content = read_json(files.join(folder, COLUMNS_FILE), ColumnsContent, fix="vectorize again")
        texts = Vectorizer.load(folder) if files.exists(files.join(folder, TEXTS_FILE)) else None
        return cls(texts, ColumnFeatures.from_json(content))
