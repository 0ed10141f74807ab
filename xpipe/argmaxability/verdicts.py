"""Verdicts on label sets as columns, with the certificates that prove them; to Parquet and back.

Holds no arithmetic: what a certificate proves is in `certificate`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from xpipe import files
from xpipe.errors import DataError

STATUSES = np.array(["unargmaxable", "argmaxable", "undecided"])
UNARGMAXABLE, ARGMAXABLE, UNDECIDED = range(3)
FORMAT = "1"
ROW_GROUP = 1 << 14


@dataclasses.dataclass(frozen=True)
class Verdicts:
    """One verdict a label set. The radius of the largest ball of inputs with exactly these signs lies between bounds.

    A point proves the lower bound, multipliers the upper one; a set may have either or both.
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
        )

    def bare(self) -> Verdicts:
        """The same verdicts without their certificates: what counting needs, in little memory."""
        return dataclasses.replace(
            self,
            points=np.empty((len(self), 0)),
            multiplier_ptr=np.zeros(len(self) + 1, dtype=np.int64),
            multiplier_labels=self.multiplier_labels[:0],
            multipliers=self.multipliers[:0],
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
        return Verdicts(**columns, multiplier_ptr=pointer, eps=parts[0].eps, box=parts[0].box)

    def to_table(self, indptr: np.ndarray, indices: np.ndarray, first: int = 0) -> pa.Table:
        """A row a set: set, labels, status, radius_lower, radius_upper, point, multiplier_labels, multipliers.

        indptr, indices: the label sets; first: the number of the first one. Points are null where there is none;
        eps, box and d are in the schema.
        """
        n_sets, d = self.points.shape
        known = ~np.isnan(self.points[:, 0])
        offsets = pa.array(np.concatenate([[0], np.cumsum(np.where(known, d, 0))]), pa.int32())
        points = pa.ListArray.from_arrays(offsets, pa.array(self.points[known].ravel()), mask=pa.array(~known))
        columns = {
            "set": pa.array(np.arange(first, first + n_sets), pa.int64()),
            "labels": _lists(indptr, indices, pa.int32()),
            "status": pa.DictionaryArray.from_arrays(pa.array(self.codes, pa.int8()), pa.array(STATUSES.tolist())),
            "radius_lower": pa.array(self.radius_lower),
            "radius_upper": pa.array(self.radius_upper),
            "point": points,
            "multiplier_labels": _lists(self.multiplier_ptr, self.multiplier_labels, pa.int32()),
            "multipliers": _lists(self.multiplier_ptr, self.multipliers, pa.float64()),
        }
        meta = {"xpipe.verdicts": FORMAT, "eps": repr(self.eps), "box": repr(self.box), "d": str(d)}
        return pa.table(columns).replace_schema_metadata(meta)

    @staticmethod
    def from_table(table: pa.Table) -> Verdicts:
        """What `to_table` made a table of. Raises DataError for another table."""
        meta = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
        if meta.get("xpipe.verdicts") != FORMAT:
            raise DataError("this table does not hold verdicts", fix="give one written by `xpipe verify`")
        table = table.combine_chunks()
        n_sets, d = table.num_rows, int(meta["d"])
        known = table["point"].is_valid().to_numpy()
        points = np.full((n_sets, d), np.nan)
        points[known] = np.asarray(table["point"].combine_chunks().flatten()).reshape(-1, d)
        lengths = np.diff(np.asarray(table["multipliers"].combine_chunks().offsets)) if n_sets else np.zeros(0)
        return Verdicts(
            codes=np.array([STATUSES.tolist().index(text) for text in table["status"].to_pylist()], dtype=np.int8),
            radius_lower=table["radius_lower"].to_numpy(),
            radius_upper=table["radius_upper"].to_numpy(),
            points=points,
            multiplier_ptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            multiplier_labels=np.asarray(table["multiplier_labels"].combine_chunks().flatten()).astype(np.int32),
            multipliers=np.asarray(table["multipliers"].combine_chunks().flatten()),
            eps=float(meta["eps"]),
            box=float(meta["box"]),
        )


def _lists(indptr: np.ndarray, values: np.ndarray, kind: pa.DataType) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(indptr, pa.int32()), pa.array(values, kind))


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
    """Verdicts from a file of `write_verdicts`. Raises DataError for another file."""
    with files.open_read(path) as stream:
        try:
            return Verdicts.from_table(pq.read_table(stream))
        except pa.ArrowInvalid as error:
            raise DataError("this is not a Parquet file", where=path, why=str(error)) from error
