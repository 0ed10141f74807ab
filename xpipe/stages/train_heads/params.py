"""One head of `train: {heads: [...]}`: which layer, of what size, trained how. Holds no training, and no PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from xpipe.engine.params import Params

OWN = ("dim", "k", "temperature", "momentum")  # options that only some layers take
TAKES = {
    "bsl": ("dim",),
    "dft": ("dim", "k"),
    "lml": ("k",),
    "quasibinary": ("momentum",),
    "softmax": ("temperature",),
    "binary": (),
}
DIM = 50


class HeadParams(Params):
    """A head behind an encoder of sparse rows.

    dim: of a BSL its inner width; of a DFT head its learned (slack) columns, which is what the paper calls d: its
    weights then have 2k + 1 + dim columns. k: of a DFT head the most labels a set may have, by default the largest
    set of the dataset; of an LML head how many labels to predict, by default the mean of the dataset, rounded.
    """

    layer: Literal["bsl", "dft", "lml", "quasibinary", "softmax", "binary"]
    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=60)
    dim: int | None = Field(default=None, ge=1)
    k: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, gt=0)
    momentum: float | None = Field(default=None, ge=0, lt=1)
    width: int = Field(default=256, ge=1)
    hidden: int | None = Field(default=None, ge=1)
    normalize: bool = True
    dropout: float = Field(default=0.0, ge=0, lt=1)
    epochs: int = Field(default=30, ge=1)
    patience: int = Field(default=3, ge=1)
    batch_size: int = Field(default=256, ge=1)
    learning_rate: float = Field(default=1e-2, gt=0)
    weight_decay: float = Field(default=0.01, ge=0)
    validation: float = Field(default=0.1, ge=0, lt=1)
    criterion: Literal["ndcg", "loss"] = "ndcg"
    threads: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _fits_layer(self) -> Self:
        for option in OWN:
            if getattr(self, option) is not None and option not in TAKES[self.layer]:
                takes = ", ".join(TAKES[self.layer]) or "none of its own"
                raise ValueError(f"a {self.layer} head has no option {option}; it takes {takes}")
        return self

    @property
    def size(self) -> int | None:
        """`dim` where the layer has one."""
        return (self.dim or DIM) if "dim" in TAKES[self.layer] else None

    def head_options(self, about: dict[str, Any]) -> dict[str, Any]:
        """What `make_head` takes for it, on a dataset with this dataset.json."""
        if self.layer == "bsl":
            return {"dim": self.size}
        if self.layer == "dft":
            largest = max(1, min(int(about["k"]), (int(about["n_labels"]) - 1) // 2))
            return {"k": self.k or largest, "slack": self.size}
        if self.layer == "lml":
            return {"k": self.k or max(1, round(about["labels_a_row"]))}
        given = {"temperature": self.temperature, "momentum": self.momentum}
        return {name: value for name, value in given.items() if value is not None}

    def train_options(self, about: dict[str, Any], seed: int, device: str) -> dict[str, Any]:
        """What `heads.TrainOptions` takes for it."""
        shared = self.model_dump(mode="json", exclude={"name", *OWN})
        return {**shared, "head": self.head_options(about), "seed": seed, "device": device}


def check_names(heads: Sequence[HeadParams]) -> None:
    """Raise ValueError where two heads are given one name."""
    given = [head.name for head in heads if head.name is not None]
    for name in given:
        if given.count(name) > 1:
            raise ValueError(f"two heads have the name {name}")


def names_of(heads: Sequence[HeadParams]) -> list[str]:
    """One name per head: the given one, else its layer and size, with a number where that is taken."""
    taken = {head.name for head in heads if head.name is not None}
    names = []
    for head in heads:
        usual = head.layer if head.size is None else f"{head.layer}-{head.size}"
        name, number = head.name or usual, 2
        while head.name is None and name in taken:
            name, number = f"{usual}-{number}", number + 1
        taken.add(name)
        names.append(name)
    return names
