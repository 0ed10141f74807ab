"""Verdicts on label sets as columns, with the certificates that prove them; to Parquet and back.

Holds no proofs (`certificate`) and no rules of the table's columns (`verdict_table`).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from xpipe.argmaxability import verdict_table
from xpipe.argmaxability.modes import Question
from xpipe.argmaxability.options import INPUTS, MODE, Inputs, Mode
from xpipe.errors import DataError
from xpipe.formats.parquet_files import read_columns
from xpipe.ground import files
from xpipe.ground.sparse_rows import entries_of_rows, entry_rows, row_pointers

STATUSES = np.array(["unargmaxable", "argmaxable", "undecided"])
UNARGMAXABLE, ARGMAXABLE, UNDECIDED = range(3)
ROW_GROUP = 1 << 14
RELATIVE = 1e-6  # largest relative difference of the bounds of an exact radius


@dataclasses.dataclass(frozen=True)
class Verdicts:
    """One verdict per label set, with its certificate.

    The radius of a set is that of the largest ball of inputs which all have exactly the signs of the set. It lies
    between two bounds. A point proves the lower bound, multipliers prove the upper one; a set may have either or both.
    Where float64 is too coarse for a proof, points and multipliers have tails: numbers to be added to them, exactly.

    Attributes
    ----------
    codes : ndarray of int8, shape (n_sets,)
        Statuses as numbers: 0 unargmaxable, 1 argmaxable, 2 undecided.
    radius_lower, radius_upper : ndarray of float64, shape (n_sets,)
        Bounds of the radius; 0 where no point is known, inf where no multipliers are known.
    points : ndarray of float64, shape (n_sets, d)
        Inputs with the signs of each set; a row of NaN where none is known.
    multiplier_ptr : ndarray of int64, shape (n_sets + 1,)
        The multipliers of set i are those from multiplier_ptr[i] to multiplier_ptr[i + 1].
    multiplier_labels : ndarray of int32, shape (n_multipliers,)
        The labels that the multipliers are for.
    multipliers : ndarray of float64, shape (n_multipliers,)
        Not negative.
    eps : float
        A set is argmaxable when its radius is above eps.
    box : float
        Inputs are looked for in [-box, box]^d.
    point_tails : ndarray of float64, shape (n_sets, d), or None
        None where all are 0.
    multiplier_tails : ndarray of float64, shape (n_multipliers,), or None
        None where all are 0.
    mode : {"sign", "topk", "argmax"}
        What a set must be: the labels with scores above 0, the highest scores, or the highest score. `modes` says what
        a radius is in each.
    inputs : {"any", "nonnegative"}
        Inputs are looked for in [-box, box]^d, or in [0, box]^d.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.argmaxability import verify
    >>> verdicts = verify([[1.0], [-1.0]], sp.csr_matrix([[1, 0], [1, 1]]))
    >>> len(verdicts), verdicts.argmaxable.tolist()
    (2, [True, False])
    >>> verdicts.points[0] > 0  # label 0 has weight 1
    array([ True])
    >>> verdicts.multipliers_of(1)[0].tolist()  # the labels that exclude each other
    [0, 1]
    """

    codes: np.ndarray
    radius_lower: np.ndarray
    radius_upper: np.ndarray
    points: np.ndarray
    multiplier_ptr: np.ndarray
    multiplier_labels: np.ndarray
    multipliers: np.ndarray
    eps: float
    box: float
    point_tails: np.ndarray | None = None
    multiplier_tails: np.ndarray | None = None
    mode: Mode = MODE
    inputs: Inputs = INPUTS

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def question(self) -> Question:
        """What was asked of every set."""
        return Question(self.mode, self.inputs)

    @property
    def status(self) -> np.ndarray:
        """The status of each set: "argmaxable", "unargmaxable" or "undecided"."""
        return np.asarray(STATUSES[self.codes])

    @property
    def argmaxable(self) -> np.ndarray:
        """Whether each set is proved to be argmaxable (bool)."""
        return np.asarray(self.codes == ARGMAXABLE)

    @property
    def one_argmaxable(self) -> np.ndarray:
        """Whether each radius is at least 1: "yes", "no" or "undecided"."""
        return np.where(self.radius_lower >= 1, "yes", np.where(self.radius_upper < 1, "no", "undecided"))

    @property
    def exact(self) -> np.ndarray:
        """Whether each radius is known to 1e-6 relative (bool); of the others only bounds are known."""
        lower, upper = self.radius_lower, self.radius_upper
        known = np.where(np.isfinite(upper), upper, -1.0)
        return np.asarray((lower == upper) | ((known >= 0) & (known - lower <= RELATIVE * known)))

    def multipliers_of(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """(labels, multipliers) of one set; empty where there are none."""
        part = slice(self.multiplier_ptr[number], self.multiplier_ptr[number + 1])
        return self.multiplier_labels[part], self.multipliers[part]

    def take(self, numbers: np.ndarray) -> Verdicts:
        """The verdicts on some sets, in the order given; a set may be given several times."""
        numbers = np.asarray(numbers, dtype=np.int64)
        pointers, places = entries_of_rows(self.multiplier_ptr, numbers)
        return dataclasses.replace(
            self,
            codes=self.codes[numbers],
            radius_lower=self.radius_lower[numbers],
            radius_upper=self.radius_upper[numbers],
            points=self.points[numbers],
            multiplier_ptr=pointers,
            multiplier_labels=self.multiplier_labels[places],
            multipliers=self.multipliers[places],
            point_tails=None if self.point_tails is None else self.point_tails[numbers],
            multiplier_tails=None if self.multiplier_tails is None else self.multiplier_tails[places],
        )

    def bare(self) -> Verdicts:
        """The same verdicts without their certificates, in little memory: enough for counting."""
        return dataclasses.replace(
            self,
            points=np.empty((len(self), 0)),
            multiplier_ptr=np.zeros(len(self) + 1, dtype=np.int64),
            multiplier_labels=self.multiplier_labels[:0],
            multipliers=self.multipliers[:0],
            point_tails=None,
            multiplier_tails=None,
        )

    @staticmethod
    def concatenate(parts: Sequence[Verdicts]) -> Verdicts:
        """Verdicts on the sets of all parts, one part after the other; all of one layer, question, eps and box."""
        lengths = np.concatenate([np.diff(part.multiplier_ptr) for part in parts])
        columns = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("codes", "radius_lower", "radius_upper", "points", "multiplier_labels", "multipliers")
        }
        return Verdicts(
            **columns,
            multiplier_ptr=row_pointers(lengths),
            eps=parts[0].eps,
            box=parts[0].box,
            point_tails=_joined_tails([(part.point_tails, part.points) for part in parts]),
            multiplier_tails=_joined_tails([(part.multiplier_tails, part.multipliers) for part in parts]),
            mode=parts[0].mode,
            inputs=parts[0].inputs,
        )

    def to_table(self, indptr: np.ndarray, indices: np.ndarray, first: int = 0) -> pa.Table:
        """An Arrow table with one row per set and the columns of `verdict_table`.

        indptr, indices: the label sets; first: the number of the first one. Points that are unknown are null, tails of
        0 are null; eps, box and d are in the schema, and mode and inputs where they are not the usual ones.
        """
        known = ~np.isnan(self.points[:, 0])
        tails = self.point_tails if self.point_tails is not None else np.broadcast_to(0.0, self.points.shape)
        has_tail = np.asarray(tails.any(axis=1))
        lengths = np.diff(self.multiplier_ptr)
        owner = entry_rows(self.multiplier_ptr)
        more = np.zeros(len(owner)) if self.multiplier_tails is None else self.multiplier_tails
        has_more = np.bincount(owner, weights=more != 0, minlength=len(self)) > 0
        columns = {
            "set": pa.array(np.arange(first, first + len(self)), pa.int64()),
            "labels": verdict_table.lists(np.diff(indptr), indices, pa.int32()),
            "status": pa.DictionaryArray.from_arrays(pa.array(self.codes, pa.int8()), pa.array(STATUSES.tolist())),
            "radius_lower": pa.array(self.radius_lower),
            "radius_upper": pa.array(self.radius_upper),
            "exact": pa.array(self.exact),
            "point": verdict_table.rows(self.points, known),
            "point_tail": verdict_table.rows(tails, has_tail),
            "multiplier_labels": verdict_table.lists(lengths, self.multiplier_labels, pa.int32()),
            "multipliers": verdict_table.lists(lengths, self.multipliers, pa.float64()),
            "multiplier_tails": verdict_table.lists(lengths, more, pa.float64(), has_more),
        }
        meta = {
            "xpipe.verdicts": verdict_table.FORMAT,
            "eps": repr(float(self.eps)),
            "box": repr(float(self.box)),
            "d": str(self.points.shape[1]),
        } | verdict_table.question_of(self.mode, self.inputs)
        return pa.table(columns).replace_schema_metadata(meta)

    @staticmethod
    def from_table(table: pa.Table) -> Verdicts:
        """The verdicts of a table of `to_table`. Raises DataError for any other table."""
        verdicts = Verdicts(**verdict_table.columns_of(table, STATUSES.tolist()))
        claimed = verdict_table.claimed_exact(table)
        if claimed is not None and not np.array_equal(claimed, verdicts.exact):
            raise DataError("column `exact` does not match the bounds of a radius", fix=verdict_table.FIX)
        return verdicts


def write_verdicts(
    path: str, verdicts: Verdicts, indptr: np.ndarray, indices: np.ndarray, member: np.ndarray | None = None
) -> None:
    """Write a Parquet file, complete or not at all; the same verdicts give the same bytes.

    indptr, indices: the label sets of the verdicts. member: the set of each row of the file (default: one row per set).
    Rows are made one row group at a time, so that many rows of few sets need little memory.
    """
    member = np.arange(len(verdicts)) if member is None else member
    with files.open_write(path) as stream, contextlib.ExitStack() as stack:
        writer = None
        for first in range(0, max(len(member), 1), ROW_GROUP):
            numbers = member[first : first + ROW_GROUP]
            pointers, places = entries_of_rows(indptr, numbers)
            table = verdicts.take(numbers).to_table(pointers, indices[places], first)
            if writer is None:
                writer = stack.enter_context(pq.ParquetWriter(stream, table.schema, compression="zstd"))
            writer.write_table(table)


def read_verdicts(path: str) -> Verdicts:
    """Verdicts from a file of `write_verdicts`. Raises DataError for any other file."""
    if not files.exists(path):
        raise DataError("there is no such file", where=path)
    try:
        return Verdicts.from_table(read_columns(path))
    except DataError as error:
        raise DataError(error.what, where=path, why=error.why, fix=error.fix) from error


def _joined_tails(parts: list[tuple[np.ndarray | None, np.ndarray]]) -> np.ndarray | None:
    """The tails of all parts, each given as (tails, numbers), one after the other; None where no part has any."""
    if all(tails is None for tails, _ in parts):
        return None
    return np.concatenate([np.zeros(numbers.shape) if tails is None else tails for tails, numbers in parts])
