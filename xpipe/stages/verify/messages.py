"""What travels between stage verify and its workers: label sets, heads, and reports about them.

Holds no work.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from xpipe.argmaxability.options import MODE, Mode
from xpipe.engine.messages import Unit
from xpipe.ground.backend import Backend
from xpipe.stages.matrices import MatrixRef
from xpipe.stages.verify.params import VerifyParams

# Where labels come from


@dataclass(frozen=True)
class LabelsAsRead:
    """Labels with the numbers they were read with. names: None where the data has no names of labels."""

    labels: MatrixRef
    names: MatrixRef | None


@dataclass(frozen=True)
class LabelsOfHeads:
    """Labels with the numbers of the emitted heads/ dataset in the folder `dataset`."""

    dataset: str


LabelSource = LabelsAsRead | LabelsOfHeads

# Steps sets and prepare


@dataclass(frozen=True)
class SplitToVerify:
    """A split, and where its labels are. every_label: ask about every label by itself, not about the sets of rows."""

    split: str
    labels: LabelSource
    every_label: bool


@dataclass(frozen=True)
class SetCounts:
    """Counts of the split's label sets. unseen_occurrences: of labels that training never saw, which are left out."""

    rows: int
    distinct_sets: int
    n_labels: int
    unseen_occurrences: int


@dataclass(frozen=True)
class HeadSource:
    """Where the weights of a head are, as arguments of `read_layer`. layer: None where the user gave the weights."""

    name: str
    layer: str | None
    path: str
    key: str | None
    bias: str | None
    bias_key: str | None
    mode: Mode


@dataclass(frozen=True)
class HeadToPrepare(Unit):
    """A head whose weights are to be checked."""

    source: HeadSource


@dataclass(frozen=True)
class PreparedHead:
    """A head whose weights were checked.

    inputs: columns of its weights. bias_told: a sentence about the bias, where the user did not choose one. dft_k:
    the k of the DFT columns that the weights begin with, None where there are none.
    """

    name: str
    layer: str | None
    n_labels: int
    inputs: int
    has_bias: bool
    bias_told: str
    dft_k: int | None
    mode: Mode


# Step verdicts


@dataclass(frozen=True)
class SetRange(Unit):
    """`size` distinct label sets from number `first` on, to be verified with one head."""

    head: str
    first: int
    mode: Mode


@dataclass(frozen=True)
class Exactness:
    """What all label sets share: how exactly they are verified, and on which backend."""

    params: VerifyParams
    backend: Backend


# Step join


@dataclass(frozen=True)
class HeadToJoin(Unit):
    """A head with the paths of its verdicts, in the order of the distinct sets."""

    head: PreparedHead
    parts: tuple[str, ...]


@dataclass(frozen=True)
class Explaining:
    """How many unargmaxable sets of each head are explained at most, and where the names of labels are."""

    most: int
    labels: LabelSource


@dataclass(frozen=True)
class SizeClass:
    """Counts of the label sets with a number of active labels in a class, such as "3-5"; radii by percentile."""

    labels: str
    sets: int
    argmaxable: int
    one_argmaxable: int
    undecided: int
    bounds_only: int
    radii: dict[str, float] | None


@dataclass(frozen=True)
class ConflictingLabel:
    """A label of a conflict, and whether the set has it."""

    label: int
    original_label: int
    name: str
    in_the_set: bool


@dataclass(frozen=True)
class ExplainedSet:
    """An unargmaxable set. row: the first row that has it; rows: how many have it; conflict: why it is unargmaxable."""

    row: int
    rows: int
    labels: tuple[str, ...]
    sentence: str
    minimal: bool
    conflict: tuple[ConflictingLabel, ...]


@dataclass(frozen=True)
class DftGuarantee:
    """Rows whose sets a DFT head of this k can produce because they have at most 2k sign changes."""

    k: int
    guaranteed: int
    most_sign_changes: int


@dataclass(frozen=True)
class VerdictsFile:
    """The file of the verdicts of a head."""

    path: str  # in the folder of the run
    sha256: str


@dataclass(frozen=True)
class HeadReport:
    """What verification.json says of a head: counts of rows, radii of argmaxable rows, sets to look at first."""

    name: str
    layer: str | None
    inputs: int
    has_bias: bool
    bias_told: str
    sets: int
    argmaxable: int
    unargmaxable: int
    undecided: int
    one_argmaxable: int
    one_undecided: int
    bounds_only: int
    radii: dict[str, float] | None
    by_active_labels: tuple[SizeClass, ...]
    worst: tuple[ExplainedSet, ...]
    verdicts: VerdictsFile
    dft: DftGuarantee | None
    mode: Mode

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        content = dataclasses.asdict(self)
        if self.dft is None:
            del content["dft"]
        if self.mode == MODE:
            del content["mode"]
        return content

    def counts_to_json(self) -> dict[str, Any]:
        """The counts without lists and files: what the table and results.json of a run say."""
        lengthy = ("by_active_labels", "worst", "verdicts")
        return {name: value for name, value in self.to_json().items() if name not in lengthy}


# Step report


@dataclass(frozen=True)
class Report:
    """Everything that verification.json says."""

    params: VerifyParams
    counts: SetCounts
    heads: tuple[HeadReport, ...]

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        numbers = "as read" if self.params.as_read else "heads/labels.parquet"
        return {**self._about(), "label_numbers": numbers, "heads": [head.to_json() for head in self.heads]}

    def summary(self) -> dict[str, Any]:
        """What the table and results.json of a run say."""
        return {**self._about(), "heads": [head.counts_to_json() for head in self.heads]}

    def _about(self) -> dict[str, Any]:
        """The options that decide the verdicts, and the counts."""
        said = {"split", "radius", "eps", "box", "inputs"}
        params = self.params.model_dump(mode="json", include=said, exclude_none=True)
        return {**params, **dataclasses.asdict(self.counts)}
