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
    units: tuple[tuple[int, ...], ...]  # of each level of each tree
    labels: int  # with positives
    held_out: int  # rows that calibrate the forest
    folds: int  # of these rows


@dataclass(frozen=True)
class Learnt:
    """How much some consecutive units have learnt. features: of all units together."""

    units: int
    features: int
    weights: int
    biases: int


@dataclass(frozen=True)
class Chunk:
    """Units first to last - 1 of all trees, as they were trained, counted tree after tree."""

    name: str
    first: int
    last: int


@dataclass(frozen=True)
class Trained:
    """The chunks of trained units, in order, and how much all of them have learnt."""

    training: Training
    chunks: tuple[Chunk, ...]
    learnt: Learnt


@dataclass(frozen=True)
class ChunkToScore(Unit):
    """The units of a chunk at one level, trained without a fold, and the rows of that fold; its size: rows."""

    chunk: Chunk
    fold: int
    level: int


@dataclass(frozen=True)
class Room:
    """Where the numbers of each array of weights begin in the file of the model, in the order of `Weights`."""

    starts: tuple[int, ...]


@dataclass(frozen=True)
class ChunkToPlace(Unit):
    """A chunk whose weights go into the file of the model. before: what all chunks before it have learnt."""

    chunk: Chunk
    before: Learnt


@dataclass(frozen=True)
class Placing:
    """What all chunks need that are placed."""

    room: Room


@dataclass(frozen=True)
class Placed:
    """The pieces of a chunk in the file of the model: (CRC-32, bytes) for each array of weights."""

    pieces: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ToJoin:
    """What the model is joined from. placed: of all chunks; None where the store takes no pieces of files."""

    trained: Trained
    placed: tuple[Placed, ...] | None


@dataclass(frozen=True)
class ModelFacts:
    """What the summary says about the model."""

    bytes: int
