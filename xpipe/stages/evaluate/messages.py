"""What travels between stage evaluate and its workers: models, parts of their scores, and figures.

Holds no work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xpipe.engine.messages import Unit
from xpipe.stages.evaluate.params import EvaluateParams
from xpipe.stages.matrices import MatrixRef


@dataclass(frozen=True)
class TreeToEvaluate:
    """A forest of label trees. path: of its file; dataset: the folder of the emitted dataset it was trained on."""

    name: str
    path: str
    dataset: str

    @property
    def score_kinds(self) -> tuple[str, ...]:
        """The matrices it predicts: one, because its scores are probabilities."""
        return ("ranking",)

    def about(self) -> dict[str, Any]:
        """What evaluation.json says of it."""
        return {"name": self.name}


@dataclass(frozen=True)
class HeadToEvaluate:
    """A trained head. path: its folder; dataset: the folder of the emitted dataset it was trained on."""

    name: str
    path: str
    dataset: str
    layer: str
    dim: int | None
    parameters: dict[str, int]

    @property
    def score_kinds(self) -> tuple[str, ...]:
        """The matrices it predicts: logits to rank by, because probabilities may round to the same number."""
        return ("ranking", "probabilities")

    def about(self) -> dict[str, Any]:
        """What evaluation.json says of it."""
        return {"name": self.name, "layer": self.layer, "dim": self.dim, "parameters": self.parameters}


Model = TreeToEvaluate | HeadToEvaluate


@dataclass(frozen=True)
class PartToPredict(Unit):
    """Part `index` of the split's rows, to be predicted by one model; its size is its number of rows."""

    model: Model
    index: int


@dataclass(frozen=True)
class Prediction:
    """What all parts share: the features of the rows, and the options."""

    features: MatrixRef
    params: EvaluateParams


@dataclass(frozen=True)
class Predicted:
    """How long a prediction took."""

    seconds: float


@dataclass(frozen=True)
class ModelToMeasure(Unit):
    """A model with the paths of its scores and of its probabilities, in the order of the parts."""

    model: Model
    scores: tuple[str, ...]
    probabilities: tuple[str, ...]


@dataclass(frozen=True)
class Truth:
    """What scores are measured against. train_labels: for propensities, None where training rows have no labels."""

    labels: MatrixRef
    train_labels: MatrixRef | None
    n_labels: int
    synthetic: bool
    params: EvaluateParams
    seed: int


@dataclass(frozen=True)
class Figures:
    """The figures of a model that tables show. metrics: between 0 and 1, one value per rank; calibration: by name."""

    metrics: dict[str, list[float]]
    calibration: dict[str, int | float]


@dataclass(frozen=True)
class ReportToJoin:
    """What evaluation.json begins with, and the paths of the reports of all models."""

    split: str
    synthetic: bool
    reports: tuple[str, ...]
