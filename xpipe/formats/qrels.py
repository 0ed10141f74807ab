"""Answer sets of queries from judgement files (qrels): TREC's four columns, or three with a header as in BEIR.

Holds no retrieval and no metrics.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError, printable
from xpipe.formats.lines import lines_of

FIX = "lines `query 0 document relevance`, or `query document relevance` after a header line"


@dataclasses.dataclass(frozen=True)
class Qrels:
    """The documents that answer each query.

    Attributes
    ----------
    queries : tuple of str
        Ids of the queries that have an answer, in the order of the file.
    answers : scipy.sparse.csr_matrix of float32, shape (n_queries, n_documents)
        1 for each document that answers the query.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.formats import Qrels
    >>> Qrels(("q1",), sp.csr_matrix([[0.0, 1.0]])).answers.indices.tolist()
    [1]
    """

    queries: tuple[str, ...]
    answers: sp.csr_matrix


def read_qrels(path: str, documents: Sequence[str] | int) -> Qrels:
    """Read which documents answer each query.

    Parameters
    ----------
    path : str
        A text file, plain or gzip: `query 0 document relevance` (TREC), or `query document relevance` after a header
        (BEIR). Documents with a relevance above 0 answer the query.
    documents : sequence of str, or int
        The id of each row of the index; or the number of rows, whose ids are then 0, 1, 2 and so on.

    Returns
    -------
    Qrels

    Raises
    ------
    DataError
        For a line of another form, and for a document that the index does not have.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from xpipe.formats import read_qrels
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "qrels.tsv"
    >>> _ = path.write_text("q1 0 d1 1\\nq1 0 d2 0\\nq2 0 d2 1\\n")
    >>> found = read_qrels(str(path), ["d1", "d2"])
    >>> found.queries, found.answers.toarray().tolist()
    (('q1', 'q2'), [[1.0, 0.0], [0.0, 1.0]])
    """
    named = [str(i) for i in range(documents)] if isinstance(documents, int) else documents
    numbers = {name: number for number, name in enumerate(named)}
    if len(numbers) != len(named):
        raise DataError("two rows of the index have the same id", fix="give each row an id of its own")
    answers: dict[str, list[int]] = {}
    for number, raw in lines_of(path):
        line = raw.decode("utf-8", "replace")
        fields = line.split("\t") if "\t" in line else line.split()
        if not "".join(fields).strip() or (number == 1 and len(fields) == 3 and not _is_number(fields[2])):
            continue  # an empty line, or a header
        query, document, relevance = _judgement(fields, path, number)
        if relevance > 0:
            answers.setdefault(query, []).append(_row_of(document, numbers, path, number))
    rows = [np.unique(found) for found in answers.values()]
    pointers = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    indices = np.concatenate([np.zeros(0, np.int64), *rows])
    matrix = sp.csr_matrix((np.ones(len(indices), np.float32), indices, pointers), shape=(len(rows), len(named)))
    return Qrels(tuple(answers), matrix)


def _is_number(text: str) -> bool:
    """Whether a text is a whole number or a decimal one."""
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _judgement(fields: list[str], path: str, number: int) -> tuple[str, str, float]:
    """(query, document, relevance) of one line."""
    fields = [field.strip() for field in fields]
    if len(fields) not in (3, 4) or not all(fields) or not _is_number(fields[-1]):
        shown = printable(" ".join(fields)[:80])
        raise DataError(f"no judgement: {shown!r}", where=f"{path}, line {number}", fix=FIX)
    return fields[0], fields[-2], float(fields[-1])


def _row_of(document: str, numbers: Mapping[str, int], path: str, number: int) -> int:
    """The row of a document. Raises DataError where the index has none."""
    if document not in numbers:
        raise DataError(
            f"the index has no document {printable(document[:80])!r}",
            where=f"{path}, line {number}",
            why=f"it has {len(numbers):,} rows",
            fix="name its rows: --names FILE with one id per line; without names, ids are row numbers from 0",
        )
    return numbers[document]
