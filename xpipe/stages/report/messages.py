"""What travels between stage report and its workers: parts of matrices, counts, references. Holds no work."""

from __future__ import annotations

from dataclasses import dataclass

from xpipe.engine.messages import Unit
from xpipe.stages.matrices import MatrixRef


@dataclass(frozen=True)
class PartToCount(Unit):
    """One part of a matrix of a split, whose rows are counted; its size is its number of rows."""

    matrix: MatrixRef
    split: str
    index: int


@dataclass(frozen=True)
class Nothing:
    """What parts share: nothing."""


@dataclass(frozen=True)
class LengthCount:
    """How many rows have so many entries."""

    entries: int
    rows: int


@dataclass(frozen=True)
class RowLengths:
    """The lengths of the rows of a part."""

    lengths: tuple[LengthCount, ...]


@dataclass(frozen=True)
class SplitCounts:
    """The lengths of the rows of a split: entries of features and, where they have any, of labels."""

    split: str
    features: tuple[LengthCount, ...]
    labels: tuple[LengthCount, ...] | None


@dataclass(frozen=True)
class Texts:
    """Parquet files with one row per training row, in order: `paths[p]` has `rows[p]` of them. column: what is read."""

    paths: tuple[str, ...]
    rows: tuple[int, ...]
    column: str


@dataclass(frozen=True)
class ToFigure:
    """Everything that figures are made from. None: the run has no such thing.

    frequency: the matrix that label frequencies are counted in, and in words what it is. truth: true labels of the
    training rows. names: the folder of the stage whose artifact `names` has names. scores: what scores of owners are.
    texts, ids: of rows, where the data came from tables.
    """

    counts: tuple[SplitCounts, ...]
    frequency: MatrixRef | None
    counted: str
    features: MatrixRef
    membership: MatrixRef | None
    group_labels: MatrixRef | None
    assigned: MatrixRef | None
    truth: MatrixRef | None
    names: str | None
    texts: Texts | None
    ids: Texts | None
    scores: str
    examples: int
