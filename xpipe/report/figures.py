"""The figures of the data and of the assignment that a report shows, as figures.json of a run holds them.

Holds declarations only: `counting` and `group_examples` compute them, stage `report` writes them.
"""

from __future__ import annotations

from dataclasses import dataclass

FIGURES = "figures.json"
FORMAT = 1


@dataclass(frozen=True)
class Bin:
    """How many things have from `low` to `high` of something. high: None in the last bin, which has no end."""

    low: int
    high: int | None
    count: int

    def in_words(self) -> str:
        """The range: 3, 4-7, 8+."""
        return f"{self.low:,}+" if self.high is None else f"{self.low:,}" + f"–{self.high:,}" * (self.high > self.low)

    def in_short(self) -> str:
        """The range where there is little room: 3, 4–7, 101–1k, 8+."""
        ends = [shorten(self.low)] if self.high in (None, self.low) else [shorten(self.low), shorten(self.high or 0)]
        return "–".join(ends) + "+" * (self.high is None)


def shorten(number: int) -> str:
    """A number of few characters: 999, 1k, 25k, 3M."""
    for scale, letter in ((1_000_000, "M"), (1_000, "k")):
        if number >= scale:
            return f"{number / scale:.3g}{letter}" if number % (scale // 10) == 0 else f"{number / scale:.0f}{letter}"
    return str(number)


@dataclass(frozen=True)
class Spread:
    """How whole numbers are spread, such as the labels of rows."""

    bins: tuple[Bin, ...]
    mean: float
    median: float
    most: int


@dataclass(frozen=True)
class SplitFigures:
    """The rows of a split. labels: None where its rows have none."""

    rows: int
    features: Spread
    labels: Spread | None


@dataclass(frozen=True)
class NamedCount:
    """A label and how often it occurs."""

    label: int
    name: str
    count: int


@dataclass(frozen=True)
class RankedCount:
    """How often the label at a rank occurs, the most frequent one first."""

    rank: int
    count: int


@dataclass(frozen=True)
class LabelFigures:
    """How often labels occur. counted: in what. curve: at ranks that grow by a constant factor."""

    counted: str
    labels: int
    unused: int
    classes: tuple[Bin, ...]
    curve: tuple[RankedCount, ...]
    most: tuple[NamedCount, ...]


@dataclass(frozen=True)
class GroupFigures:
    """The groups: their sizes, and how many labels they have."""

    groups: int
    sizes: Spread
    labels: Spread


@dataclass(frozen=True)
class ChanceBin:
    """Owners whose chance is in a range. mean: of their chances. right: true owners; None where truth is not known."""

    low: float
    high: float
    pairs: int
    mean: float
    right: int | None


@dataclass(frozen=True)
class Owner:
    """A row that owns a label. right: whether it truly does; None where truth is not known."""

    row: int
    chance: float
    right: bool | None


@dataclass(frozen=True)
class OwnedLabel:
    """A label of a group, and the members that own it; more: owners that are left out."""

    label: int
    name: str
    owners: tuple[Owner, ...]
    more: int


@dataclass(frozen=True)
class Member:
    """A row of a group, with its id and its text, or the features that weigh most; "" where the run has none."""

    row: int
    id: str
    text: str


@dataclass(frozen=True)
class GroupExample:
    """A group to look at. chance: the mean, over its labels, of the chance of the likeliest owner."""

    group: int
    name: str
    chance: float
    members: tuple[Member, ...]
    more_members: int
    labels: tuple[OwnedLabel, ...]
    more_labels: int


@dataclass(frozen=True)
class AssignmentFigures:
    """The owners. scores: what their scores are (posterior, similarity, none). Examples need posteriors.

    said: what the texts of members are: texts, or the names of their heaviest features.
    """

    scores: str
    said: str
    pairs: int
    chances: tuple[ChanceBin, ...]
    easy: tuple[GroupExample, ...]
    doubtful: tuple[GroupExample, ...]


@dataclass(frozen=True)
class Figures:
    """Everything that figures.json holds. None: the run has no such thing."""

    format: int
    splits: dict[str, SplitFigures]
    labels: LabelFigures | None
    groups: GroupFigures | None
    assignment: AssignmentFigures | None
