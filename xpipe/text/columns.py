"""Numbers and categories of a table as features: what the training rows show of them, and the rows of a matrix.

Holds no texts (`vectorizer`) and no files of tables.

A number is divided by the largest absolute value of the training rows, so that it weighs no more than a word. A
category is one feature per value of the training rows. A missing cell is a feature of its own, where
training rows have some.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from pydantic import Field
from typing_extensions import TypedDict

from xpipe.ground.sparse_rows import row_pointers

Finite = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class NumberColumn(TypedDict):
    """What training rows show of a column of numbers: the largest absolute value, and whether cells are missing."""

    largest: Finite
    missing: bool


class CategoryColumn(TypedDict):
    """What training rows show of a column of categories: its values, sorted, and whether cells are missing."""

    values: list[str]
    missing: bool


class ColumnsContent(TypedDict):
    """The content of columns.json."""

    numbers: dict[str, NumberColumn]
    categories: dict[str, CategoryColumn]


@dataclass(frozen=True)
class ColumnFeatures:
    """Features of numbers and categories, in the order of the names of the columns.

    Attributes
    ----------
    numbers : dict of str to NumberColumn
        By the name of the column.
    categories : dict of str to CategoryColumn
        By the name of the column.
    """

    numbers: dict[str, NumberColumn]
    categories: dict[str, CategoryColumn]

    @classmethod
    def count(cls, numbers: Mapping[str, Any], categories: Mapping[str, Any]) -> ColumnFeatures:
        """What some training rows show.

        Parameters
        ----------
        numbers : mapping of str to Array
            Columns of numbers, float64; null is missing.
        categories : mapping of str to Array
            Columns of strings; null is missing.

        Returns
        -------
        ColumnFeatures
            The features of these rows alone; `merge` joins those of several chunks.
        """
        found_numbers: dict[str, NumberColumn] = {}
        for name, cells in sorted(numbers.items()):
            array = pa.chunked_array([cells]) if isinstance(cells, pa.Array) else cells
            largest = pc.max(pc.abs(array)).as_py() or 0.0
            found_numbers[name] = NumberColumn(largest=float(largest), missing=array.null_count > 0)
        found_categories: dict[str, CategoryColumn] = {}
        for name, cells in sorted(categories.items()):
            values = sorted(cells.drop_null().unique().to_pylist())
            found_categories[name] = CategoryColumn(values=values, missing=cells.null_count > 0)
        return cls(found_numbers, found_categories)

    @classmethod
    def merge(cls, parts: Iterable[ColumnFeatures]) -> ColumnFeatures:
        """What all training rows show, from what their chunks show."""
        numbers: dict[str, NumberColumn] = {}
        categories: dict[str, CategoryColumn] = {}
        for part in parts:
            for name, number in part.numbers.items():
                own = numbers.get(name, number)
                numbers[name] = NumberColumn(
                    largest=max(own["largest"], number["largest"]), missing=own["missing"] or number["missing"]
                )
            for name, category in part.categories.items():
                had = categories.get(name, category)
                categories[name] = CategoryColumn(
                    values=sorted({*had["values"], *category["values"]}), missing=had["missing"] or category["missing"]
                )
        return cls(dict(sorted(numbers.items())), dict(sorted(categories.items())))

    @classmethod
    def from_json(cls, content: ColumnsContent) -> ColumnFeatures:
        """The features that columns.json describes."""
        return cls(dict(sorted(content["numbers"].items())), dict(sorted(content["categories"].items())))

    def to_json(self) -> ColumnsContent:
        """The content of columns.json."""
        return ColumnsContent(numbers=self.numbers, categories=self.categories)

    def names(self) -> list[str]:
        """The name of each feature."""
        found = []
        for name, number in self.numbers.items():
            found += [name, *([f"{name} is missing"] if number["missing"] else [])]
        for name, category in self.categories.items():
            found += [f"{name}={value}" for value in category["values"]]
            found += [f"{name} is missing"] if category["missing"] else []
        return found

    def transform(self, numbers: Mapping[str, Any], categories: Mapping[str, Any], n_rows: int) -> sp.csr_matrix:
        """The features of some rows.

        Parameters
        ----------
        numbers, categories : mapping of str to Array
            As for `count`. A category that no training row has gives no feature.
        n_rows : int
            The number of rows.

        Returns
        -------
        csr_matrix
            Rows x features, float32.
        """
        blocks: list[sp.csr_matrix] = []
        for name, number in self.numbers.items():
            values = numbers[name].to_numpy(zero_copy_only=False).astype(np.float64)
            there = np.isfinite(values)
            scaled = np.where(there & (number["largest"] > 0), values / (number["largest"] or 1.0), 0.0)
            blocks.append(_column(scaled))
            if number["missing"]:
                blocks.append(_column((~there).astype(np.float64)))
        for name, category in self.categories.items():
            blocks.append(_one_of(categories[name], category["values"]))
            if category["missing"]:
                blocks.append(_column(categories[name].is_null().to_numpy(zero_copy_only=False).astype(np.float64)))
        if not blocks:
            return sp.csr_matrix((n_rows, 0), dtype=np.float32)
        return sp.csr_matrix(sp.hstack(blocks, format="csr", dtype=np.float32))


def _column(values: np.ndarray) -> sp.csr_matrix:
    """A matrix of one column, without its zeros."""
    values = values.astype(np.float32)
    rows = np.flatnonzero(values)
    indptr = row_pointers(values != 0)
    return sp.csr_matrix((values[rows], np.zeros(len(rows), np.int32), indptr), (len(values), 1))


def _one_of(cells: Any, values: Sequence[str]) -> sp.csr_matrix:
    """A matrix with a one in the column of the value of each row."""
    found = pc.index_in(cells, value_set=pa.array(values, pa.string()), skip_nulls=True)
    known = found.is_valid().to_numpy(zero_copy_only=False)
    indices = found.drop_null().to_numpy(zero_copy_only=False).astype(np.int32)
    indptr = row_pointers(known)
    return sp.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), (len(cells), len(values)))
