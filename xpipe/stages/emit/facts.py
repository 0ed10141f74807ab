"""Messages of stage emit: what its workers get, and what they find out about the labels. Holds no arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xpipe.stages.emit.params import EmitParams
from xpipe.stages.matrices import MatrixRef


@dataclass(frozen=True)
class LabelSource:
    """Where the training labels come from.

    matrix: the labels of samples. Where `group_labels` is given, the membership of samples in groups: each member gets
    all labels of its groups. scores: what label scores are (posterior, chance, similarity, or none: all are 1).
    sentence: the source, for people.
    """

    matrix: MatrixRef
    group_labels: MatrixRef | None
    scores: str
    sentence: str


@dataclass(frozen=True)
class EmitInputs:
    """What all steps start from: the artifacts that rows are read from, their widths, and the params.

    names: the artifact with the names of labels. ids: that with the ids and groups of rows, where the data has them.
    candidates: that with the most likely labels beside the assigned ones, where there are any.
    """

    features: MatrixRef
    train_labels: LabelSource
    held_out_labels: MatrixRef | None
    names: MatrixRef
    synthetic: bool
    n_features: int
    n_labels: int
    splits: tuple[str, ...]
    seed: int
    params: EmitParams
    ids: MatrixRef | None = None
    candidates: MatrixRef | None = None


@dataclass(frozen=True)
class LabelSurvey:
    """Counts of the labels, after labels without positives are filtered.

    rows: emitted rows of each split. k: the largest number of labels of a training row; k_percentiles: percentiles of
    that number. unseen: occurrences of filtered labels in each held-out split. empty_rows: rows of each split without
    any label. candidates: all of them, where there are any.
    """

    rows: dict[str, int]
    labels_kept: int
    labels_filtered: int
    k: int
    k_percentiles: dict[str, float]
    labels_per_row: float
    unseen: dict[str, int]
    empty_rows: dict[str, int]
    drops_empty_rows: bool
    candidates: int = 0

    def filtered(self) -> dict[str, Any]:
        """What was filtered, as summaries and dataset.json say it."""
        action = "dropped" if self.drops_empty_rows else "kept"
        return {
            "labels_without_positives": self.labels_filtered,
            "held_out_occurrences_of_these": self.unseen,
            "rows_without_labels": {"action": action, **self.empty_rows},
        }


@dataclass(frozen=True)
class SignChanges:
    """Sign changes of the training label sets. smallest_k: the smallest k whose DFT head can produce every set."""

    mean: float
    largest: int
    smallest_k: int


@dataclass(frozen=True)
class OrderEffect:
    """Sign changes in the original order of the labels, and in the order of heads/."""

    before: SignChanges
    after: SignChanges


@dataclass(frozen=True)
class EmitFacts:
    """What all steps after the survey get. sign_changes: None where the labels keep their order."""

    inputs: EmitInputs
    survey: LabelSurvey
    sign_changes: OrderEffect | None = None
