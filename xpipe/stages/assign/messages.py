"""What travels between stage assign and its workers: references, options, numbers; never arrays.

Holds no work.
"""

from __future__ import annotations

from dataclasses import dataclass

from xpipe.eagle.choice import Choice
from xpipe.eagle.options import ImputeOptions
from xpipe.eagle.trust import TrialQuality
from xpipe.engine.messages import Unit
from xpipe.ground.backend import Backend
from xpipe.ground.calibration_map import CalibrationMap
from xpipe.stages.label_chunks import Grouped
from xpipe.stages.matrices import MatrixRef


@dataclass(frozen=True)
class Assignment(Grouped):
    """What owners are found from. embedding: stored label vectors, where they are what the method would compute."""

    options: ImputeOptions
    embedding: MatrixRef | None
    backend: Backend


@dataclass(frozen=True)
class RowsPart(Unit):
    """Part `index` of the training rows: rows `start` to `start + size - 1`."""

    index: int
    start: int


@dataclass(frozen=True)
class GroupsPart(Unit):
    """Groups first to last - 1; its size is their number."""

    first: int
    last: int


@dataclass(frozen=True)
class Settled:
    """The assignment with the method that is used.

    choice, arrays: what `discriminative` and `auto` chose, and the files that go with it. judged: how good the owners
    of another method look in a trial. coordinates: the file of each part of the training rows, where they are stored.
    kinship: what leaves groups out of their own scores, where it is stored: file, first group, one after the last one.
    """

    assignment: Assignment
    method: str
    choice: Choice | None = None
    arrays: tuple[str, ...] = ()
    judged: TrialQuality | None = None
    coordinates: tuple[str, ...] = ()
    kinship: tuple[tuple[str, int, int], ...] = ()

    @property
    def trust(self) -> TrialQuality | None:
        """What the trial says about the method that is used."""
        return self.judged if self.choice is None else self.choice.trust


@dataclass(frozen=True)
class ChunkResult:
    """allowed: pairs of sample and label that groups allow. objective: after each step, where the method has one.

    owned, expected: how many of the owners, and of all allowed pairs, are true, where the method gives chances. shifts:
    the file that turns scores of owners into chances, see `eagle.chances`. candidates: the file with their chances.
    """

    allowed: int
    objective: tuple[float, ...] | None = None
    owned: float | None = None
    expected: float | None = None
    shifts: str | None = None
    candidates: str | None = None


@dataclass(frozen=True)
class OwnerFiles:
    """The owners of all chunks of labels.

    candidates: their files; None where the stage provides none, no file where `auto` took a method without. cuts: the
    number of rows of each part of the features. to_chances: what turns scores into chances, where the method gives none
    itself.
    """

    paths: tuple[str, ...]
    candidates: tuple[str, ...] | None
    features: MatrixRef
    truth: MatrixRef | None
    cuts: tuple[int, ...]
    to_chances: CalibrationMap | None


@dataclass(frozen=True)
class Quality:
    """How the assigned labels compare with the true ones."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class GatherResult:
    """assigned, candidates: the number of each. quality: where true labels are known."""

    assigned: int
    candidates: int = 0
    quality: Quality | None = None
