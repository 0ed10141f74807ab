"""What travels to the tasks of stage train, and back. Holds no work."""

from __future__ import annotations

from dataclasses import dataclass

from xpipe.engine.messages import Unit
from xpipe.stages.train_trees.params import TreeParams
from xpipe.stages.train_trees.stored_rows import RowFacts, open_data
from xpipe.trees import TrainingData, TreeOptions
from xpipe.trees.row_parts import Part


@dataclass(frozen=True)
class Training:
    """What every task of the stage needs. rows: None until they are stored."""

    dataset: str  # the folder of the emitted tree/
    params: TreeParams
    seed: int
    weighted: bool  # whether the scores of positives are chances
    rows: RowFacts | None = None

    def options(self) -> TreeOptions:
        """The options of the forest. Rows of tree/ have length 1 already; `normalize` also takes rows that do not."""
        return TreeOptions(**self.params.model_dump(exclude={"label_vectors", "weighted"}), seed=self.seed)

    def data(self, folder: str) -> TrainingData:
        """The training rows, once they are stored."""
        assert self.rows is not None
        return open_data(folder, self.rows)


@dataclass(frozen=True)
class LabelChunk(Unit):
    """Labels first to last - 1 of those with positives; its size is their rows."""

    index: int
    first: int
    last: int


@dataclass(frozen=True)
class Planning:
    """What the plan of the trees is made from."""

    training: Training
    embedded: bool  # whether the dataset has label vectors
    starts: tuple[int, ...]  # of the chunks of label vectors that were made from rows; the last one: all labels
    cuts: tuple[int, ...] = ()  # levels between which nodes are split by tasks of their own, from 0 to the last one


@dataclass(frozen=True)
class NodeToSplit(Unit):
    """A node of a tree, and up to which level below it labels are split."""

    tree: int
    level: int
    number: int
    last: int


@dataclass(frozen=True)
class TreeUnits(Unit):
    """Units first to last - 1 of all trees, counted tree after tree; its size: rows, each as often as it is taken.

    part: of the rows that reach them.
    """

    first: int
    last: int
    part: Part


@dataclass(frozen=True)
class UnitOfParts(Unit):
    """A unit that was trained in parts. parts: the names of what was trained, in order."""

    number: int  # of the unit, counted tree after tree
    parts: tuple[str, ...]


@dataclass(frozen=True)
class ForestPlan:
    """The trees, and how their units are cut into tasks."""

    chunks: tuple[tuple[int, int, int, int], ...]  # first unit, one after the last unit, rows, parts of the rows
    trees: int
    levels: int  # of one tree
    labels: int  # with positives
    held_out: int  # rows that calibrate the forest


@dataclass(frozen=True)
class Trained:
    """The chunks of trained units."""

    training: Training
    chunks: tuple[str, ...]  # their names, in the order of the units


@dataclass(frozen=True)
class ModelFacts:
    """What the summary says about the model."""

    weights: int
    bytes: int
