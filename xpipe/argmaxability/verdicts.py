"""Verdicts on label sets as columns, with the certificates that prove them; to Parquet and back.

Holds no arithmetic: what a certificate proves is in `certificate`. What a table must hold is in `verdict_table`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from xpipe.argmaxability import verdict_table
from xpipe.errors import DataError
from xpipe.ground import files

STATUSES = np.array(["unargmaxable", "argmaxable", "undecided"])
UNARGMAXABLE, ARGMAXABLE, UNDECIDED = range(3)
ROW_GROUP = 1 << 14
RELATIVE = 1e-6  # difference of the bounds of an exact radius


@dataclasses.dataclass(frozen=True)
class Verdicts:
    """One verdict a label set. The radius of the largest ball of inputs with exactly these signs lies between bounds.

    A point proves the lower bound, multipliers the upper one; a set may have either or both. Where float64 is too
    coarse for a proof they have tails: numbers to be added to them, exactly.
    """

    codes: np.ndarray  # int8, numbers of STATUSES
    radius_lower: np.ndarray  # float64; 0: no point is known
    radius_upper: np.ndarray  # float64; inf: no multipliers are known
    points: np.ndarray  # float64 [n_sets, d]; a row of NaN: none
    multiplier_ptr: np.ndarray  # int64 [n_sets + 1]
    multiplier_labels: np.ndarray  # int32
    multipliers: np.ndarray  # float64, not negative
    eps: float  # a set is argmaxable when its radius is above
    box: float  # inputs are looked for in [-box, box]^d
    point_tails: np.ndarray | None = None  # float64 [n_sets, d]; None: all are 0
    multiplier_tails: np.ndarray | None = None  # float64, as many as multipliers; None: all are 0

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def status(self) -> np.ndarray:
        """ "argmaxable", "unargmaxable" or "undecided" a set."""
        return STATUSES[self.codes]

    @property
    def argmaxable(self) -> np.ndarray:
        """Whether a set is proved to be argmaxable, with a radius above eps."""
        return self.codes == ARGMAXABLE

    @property
    def one_argmaxable(self) -> np.ndarray:
        """ "yes", "no" or "undecided": whether the radius is at least 1."""
        return np.where(self.radius_lower >= 1, "yes", np.where(self.radius_upper < 1, "no", "undecided"))

    @property
    def exact(self) -> np.ndarray:
        """Whether the radius is known to 1e-6 relative (bool); where not, all that is known are its bounds."""
        lower, upper = self.radius_lower, self.radius_upper
        known = np.where(np.isfinite(upper), upper, -1.0)
        return (lower == upper) | ((known >= 0) & (known - lower <= RELATIVE * known))

    def multipliers_of(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """(labels, multipliers) of one set; empty where there are none."""
        part = slice(self.multiplier_ptr[row], self.multiplier_ptr[row + 1])
        return self.multiplier_labels[part], self.multipliers[part]

    def take(self, rows: np.ndarray) -> Verdicts:
        """The verdicts of some rows, in their order; a row may come several times."""
        rows = np.asarray(rows, dtype=np.int64)
        lengths = np.diff(self.multiplier_ptr)[rows]
        pointer = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        places = np.repeat(self.multiplier_ptr[rows] - pointer[:-1], lengths) + np.arange(pointer[-1])
        return dataclasses.replace(
            self,
            codes=self.codes[rows],
            radius_lower=self.radius_lower[rows],
            radius_upper=self.radius_upper[rows],
            points=self.points[rows],
            multiplier_ptr=pointer,
            multiplier_labels=self.multiplier_labels[places],
            multipliers=self.multipliers[places],
            point_tails=None if self.point_tails is None else self.point_tails[rows],
            multiplier_tails=None if self.multiplier_tails is None else self.multiplier_tails[places],
        )

    def bare(self) -> Verdicts:
        """The same verdicts without their certificates: what counting needs, in little memory."""
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
        """Verdicts of one head, one part after the other."""
        lengths = np.concatenate([np.diff(part.multiplier_ptr) for part in parts])
        columns = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("codes", "radius_lower", "radius_upper", "points", "multiplier_labels", "multipliers")
        }
        pointer = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return Verdicts(
            **columns,
            multiplier_ptr=pointer,
            eps=parts[0].eps,
            box=parts[0].box,
            point_tails=_joined_tails([(part.point_tails, part.points) for part in parts]),
            multiplier_tails=_joined_tails([(part.multiplier_tails, part.multipliers) for part in parts]),
        )

    def to_table(self, indptr: np.ndarray, indices: np.ndarray, first: int = 0) -> pa.Table:
        """A row a set: what `verdict_table` lists, with the numbers of `STATUSES` as texts.

        indptr, indices: the label sets; first: the number of the first one. Points are null where there is none, tails
        where they are 0; eps, box and d are in the schema.
        """
        known = ~np.isnan(self.points[:, 0])
        tails = self.point_tails if self.point_tails is not None else np.broadcast_to(0.0, self.points.shape)
        has_tail = np.asarray(tails.any(axis=1))
        lengths = np.diff(self.multiplier_ptr)
        owner = np.repeat(np.arange(len(self)), lengths)
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
        }
        return pa.table(columns).replace_schema_metadata(meta)

    @staticmethod
    def from_table(table: pa.Table) -> Verdicts:
        """What `to_table` made a table of. Raises DataError for another table."""
        verdicts = Verdicts(**verdict_table.columns_of(table, STATUSES.tolist()))
        claimed = verdict_table.claimed_exact(table)
        if claimed is not None and not np.array_equal(claimed, verdicts.exact):
            raise DataError("column `exact` says of a radius what its bounds do not", fix=verdict_table.FIX)
        return verdicts


def write_verdicts(
    path: str, verdicts: Verdicts, indptr: np.ndarray, indices: np.ndarray, member: np.ndarray | None = None
) -> None:
    """Write a Parquet file, complete or not at all; the same verdicts give the same bytes.

    indptr, indices: the label sets of the verdicts. member: which of them each row of the file is (default: one each);
    rows are made a row group at a time, so that many rows of few sets need little memory.
    """
    member = np.arange(len(verdicts)) if member is None else member
    with files.open_write(path) as stream, contextlib.ExitStack() as stack:
        writer = None
        for first in range(0, max(len(member), 1), ROW_GROUP):
            rows = member[first : first + ROW_GROUP]
            lengths = np.diff(indptr)[rows]
            pointer = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
            places = np.repeat(indptr[rows] - pointer[:-1], lengths) + np.arange(pointer[-1])
            table = verdicts.take(rows).to_table(pointer, indices[places], first)
            if writer is None:
                writer = stack.enter_context(pq.ParquetWriter(stream, table.schema, compression="zstd"))
            writer.write_table(table)


def read_verdicts(path: str) -> Verdicts:
    """Verdicts from a file of `write_verdicts`. Raises DataError for another file, whoever wrote it."""
    if not files.exists(path):
        raise DataError("there is no such file", where=path)
    try:
        with files.open_read(path) as stream:
            table = pq.read_table(stream)
    except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError, OverflowError) as error:
        raise DataError("this is not a Parquet file", where=path, why=str(error)[:300]) from error
    try:
        return Verdicts.from_table(table)
    except DataError as error:
        raise DataError(error.what, where=path, why=error.why, fix=error.fix) from error


def _joined_tails(parts: list[tuple[np.ndarray | None, np.ndarray]]) -> np.ndarray | None:
    """Tails of (tails, numbers) one after the other; None where no part has any."""
    if all(tails is None for tails, _ in parts):
        return None
    return np.concatenate([np.zeros(numbers.shape) if tails is None else tails for tails, numbers in parts])
