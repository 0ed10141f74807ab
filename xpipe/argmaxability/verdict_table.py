"""The columns of a table of verdicts: how they are made, and how tables that anybody wrote are checked.

Judges no certificate: `certificate.check` finds numbers that contradict each other. One row per set:

    set int64, labels list<int32>, status, radius_lower, radius_upper, exact bool, point list<double>, point_tail,
    multiplier_labels list<int32>, multipliers list<double>, multiplier_tails

Tables of format 1 have no `exact` and no tails. Tables of format 3 name their mode and inputs in the schema; those of
formats 1 and 2 are of mode sign and inputs of any sign.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from xpipe.argmaxability.limits import are_limits
from xpipe.argmaxability.modes import Question, is_question, make_question
from xpipe.argmaxability.options import INPUTS, MODE, Inputs, Mode
from xpipe.errors import DataError, printable
from xpipe.ground.sparse_rows import row_pointers

FORMAT = "2"
OTHER_QUESTIONS = "3"  # format 2 with `mode` and `inputs` in the schema: older readers would take them for signs
FORMATS = ("1", FORMAT, OTHER_QUESTIONS)
FIX = "give a file written by `xpipe verify`"
MOST_INPUTS = 1 << 24
MOST_POINTS = 1 << 33  # numbers in the points of one table, null rows included: 64 GB


def rows(values: np.ndarray, known: np.ndarray) -> pa.ListArray:
    """Rows of a matrix as lists; null where `known` (bool) is False."""
    lengths = np.full(len(values), values.shape[1])
    return lists(lengths, values[known].ravel(), pa.float64(), known, packed=True)


def lists(
    lengths: np.ndarray, values: np.ndarray, kind: pa.DataType, known: np.ndarray | None = None, *, packed: bool = False
) -> pa.ListArray:
    """Values cut into lists; null where `known` (bool) is False. packed: values of null lists are left out already."""
    mask = None
    if known is not None:
        values = values if packed else values[np.repeat(known, lengths)]
        lengths, mask = np.where(known, lengths, 0), pa.array(~known)
    offsets = pa.array(row_pointers(lengths), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(values, kind), mask=mask)


def columns_of(table: pa.Table, statuses: list[str]) -> dict[str, Any]:
    """Arrays by the names of the fields of `Verdicts`. Raises DataError for a table that lacks some."""
    eps, box, d, question = _limits_of(table)
    n_sets = table.num_rows
    if n_sets * d > MOST_POINTS:
        raise _other(f"{n_sets:,} sets of {d:,} inputs each")
    if not np.array_equal(_numbers(table, "set", kinds.is_integer), np.arange(n_sets)):
        raise _other("column `set` does not count the rows from 0")
    lengths, labels = _lists(table, "multiplier_labels", kinds.is_integer)
    if len(labels) and not 0 <= labels.min() <= labels.max() < 2**31:
        raise _other("column `multiplier_labels` holds a number that is no label")
    counts, multipliers = _lists(table, "multipliers", kinds.is_floating)
    if not np.array_equal(lengths, counts):
        raise _other("columns `multiplier_labels` and `multipliers` have lists of different lengths")
    return {
        "codes": _codes(table, statuses),
        "radius_lower": _numbers(table, "radius_lower", kinds.is_floating),
        "radius_upper": _numbers(table, "radius_upper", kinds.is_floating),
        "points": _points(table, "point", d, np.nan),
        "multiplier_ptr": row_pointers(lengths),
        "multiplier_labels": labels.astype(np.int32),
        "multipliers": multipliers,
        "eps": eps,
        "box": box,
        "point_tails": _point_tails(table, d),
        "multiplier_tails": _multiplier_tails(table, lengths),
        "mode": question.mode,
        "inputs": question.inputs,
    }


def question_of(mode: Mode, inputs: Inputs) -> dict[str, str]:
    """What the schema says of the question; nothing for the usual one."""
    if (mode, inputs) == (MODE, INPUTS):
        return {}
    return {"xpipe.verdicts": OTHER_QUESTIONS, "mode": mode, "inputs": inputs}


def claimed_exact(table: pa.Table) -> np.ndarray | None:
    """Column `exact`; None where the table has none."""
    return _numbers(table, "exact", kinds.is_boolean) if "exact" in table.column_names else None


def _other(why: str) -> DataError:
    """The error for a table of something else."""
    return DataError("this table does not hold verdicts", why=why, fix=FIX)


def _limits_of(table: pa.Table) -> tuple[float, float, int, Question]:
    """(eps, box, d, question) from the schema."""
    meta = {key.decode("utf-8", "replace"): value for key, value in (table.schema.metadata or {}).items()}
    if meta.get("xpipe.verdicts", b"").decode("utf-8", "replace") not in FORMATS:
        raise _other("its schema does not say so")
    try:
        eps, box = float(meta["eps"][:100]), float(meta["box"][:100])
        d = int(meta["d"][:20])
    except (KeyError, ValueError) as error:
        raise _other("its schema lacks numbers for eps, box and d") from error
    if not are_limits(eps, box) or not 0 <= d <= MOST_INPUTS:
        raise _other(f"eps={eps}, box={box} and d={d} are no numbers that `xpipe verify` takes")
    if meta["xpipe.verdicts"].decode() != OTHER_QUESTIONS:
        return eps, box, d, Question()
    mode, inputs = (meta.get(name, b"")[:20].decode("utf-8", "replace") for name in ("mode", "inputs"))
    if not is_question(mode, inputs):
        raise _other(f"mode={printable(mode)} and inputs={printable(inputs)} are none that `xpipe verify` takes")
    return eps, box, d, make_question(mode, inputs)


def _column(table: pa.Table, name: str) -> pa.Array:
    """The column of this name as one array."""
    found = table.schema.get_all_field_indices(name)
    if len(found) != 1:
        raise _other(f"column `{name}` is {'there twice' if found else 'missing'}")
    column = table.column(found[0])
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _numbers(table: pa.Table, name: str, fits: Any) -> np.ndarray:
    """A column without nulls whose type `fits`."""
    column = _column(table, name)
    if not fits(column.type) or column.null_count:
        raise _other(f"column `{name}` has the type {column.type}, or nulls")
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _codes(table: pa.Table, statuses: list[str]) -> np.ndarray:
    """Column `status` as numbers."""
    column = _column(table, "status")
    texts = column.type.value_type if kinds.is_dictionary(column.type) else column.type
    if not (kinds.is_string(texts) or kinds.is_large_string(texts)):
        raise _other(f"column `status` has the type {column.type}")
    numbers = {text: number for number, text in enumerate(statuses)}
    codes = [numbers.get(text, -1) for text in column.to_pylist()]
    if -1 in codes:
        raise _other(f"column `status` holds a text other than {', '.join(statuses)}")
    return np.array(codes, dtype=np.int8)


def _lists(table: pa.Table, name: str, fits: Any) -> tuple[np.ndarray, np.ndarray]:
    """(lengths, values) of a column of lists; a null list has length 0."""
    column = _column(table, name)
    if not (kinds.is_list(column.type) or kinds.is_large_list(column.type)) or not fits(column.type.value_type):
        raise _other(f"column `{name}` has the type {column.type}")
    values = column.flatten()
    if values.null_count:
        raise _other(f"column `{name}` has nulls inside its lists")
    lengths = np.asarray(column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)).astype(np.int64)
    numbers = np.asarray(values.to_numpy(zero_copy_only=False))
    return lengths, numbers if numbers.dtype.kind in "iu" else numbers.astype(np.float64)


def _points(table: pa.Table, name: str, d: int, missing: float) -> np.ndarray:
    """A column of lists of d numbers as a matrix; rows of `missing` where a list is null."""
    lengths, values = _lists(table, name, kinds.is_floating)
    known = _column(table, name).is_valid().to_numpy(zero_copy_only=False)
    if (lengths[known] != d).any():
        raise _other(f"column `{name}` has lists of another length than d={d}")
    if not known.any():  # a view, which takes no memory
        return np.broadcast_to(np.float64(missing), (len(known), d))
    points = np.full((len(known), d), missing)
    points[known] = values.reshape(-1, d)
    return points


def _point_tails(table: pa.Table, d: int) -> np.ndarray | None:
    """Column `point_tail`; None where it is missing or all null."""
    if "point_tail" not in table.column_names or _column(table, "point_tail").null_count == table.num_rows:
        return None
    return _points(table, "point_tail", d, 0.0)


def _multiplier_tails(table: pa.Table, lengths: np.ndarray) -> np.ndarray | None:
    """Column `multiplier_tails`, zeros for null lists; None where it is missing or all null."""
    if "multiplier_tails" not in table.column_names or _column(table, "multiplier_tails").null_count == table.num_rows:
        return None
    own, values = _lists(table, "multiplier_tails", kinds.is_floating)
    known = own > 0
    if (own[known] != lengths[known]).any():
        raise _other("columns `multipliers` and `multiplier_tails` have lists of different lengths")
    tails = np.zeros(int(lengths.sum()))
    tails[np.repeat(known, lengths)] = values
    return tails
