"""One head of `train: {heads: [...]}`: which layer, of what size, trained how.

Holds no training, and imports no PyTorch. The options of each layer are those of `heads.registry`, the defaults of
training those of `heads.options`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from pydantic import Field, create_model, field_validator, model_validator

from xpipe.engine.params import Params
from xpipe.heads.options import Calibrate, Criterion, TrainOptions
from xpipe.heads.registry import DIM, HEADS

OWN = {name: option for kind in HEADS.values() for name, option in kind.options.items()}  # what only some layers take
_OwnOptions: Any = create_model(
    "OwnOptions",
    __base__=Params,
    **{name: (option.kind | None, Field(default=None, **option.limits)) for name, option in OWN.items()},  # type: ignore[call-overload]
)


class HeadParams(_OwnOptions):  # type: ignore[misc]
    """A head behind an encoder of sparse rows.

    dim: of a BSL its inner width; of a DFT head the number of its learned (slack) columns, which the paper calls d, so
    that its weights have 2k + 1 + dim columns. k: of a DFT head the most labels a set may have, by default the largest
    set of the dataset; of an LML head how many labels to predict, by default the mean of the dataset, rounded.
    calibrate: `none` leaves the probabilities of the head as they are.
    """

    layer: str = Field(description=f"one of {', '.join(HEADS)}")
    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=60)
    width: int = Field(default=TrainOptions.width, ge=1)
    hidden: int | None = Field(default=TrainOptions.hidden, ge=1)
    normalize: bool = TrainOptions.normalize
    dropout: float = Field(default=TrainOptions.dropout, ge=0, lt=1)
    epochs: int = Field(default=TrainOptions.epochs, ge=1)
    patience: int = Field(default=TrainOptions.patience, ge=1)
    batch_size: int = Field(default=TrainOptions.batch_size, ge=1)
    learning_rate: float = Field(default=TrainOptions.learning_rate, gt=0)
    weight_decay: float = Field(default=TrainOptions.weight_decay, ge=0)
    validation: float = Field(default=TrainOptions.validation, ge=0, lt=1)
    criterion: Criterion = TrainOptions.criterion
    threads: int = Field(default=TrainOptions.threads, ge=1)
    calibrate: Calibrate = TrainOptions.calibrate

    @field_validator("layer")
    @classmethod
    def _is_registered(cls, layer: str) -> str:
        if layer not in HEADS:
            raise ValueError(f"must be one of {', '.join(HEADS)}")
        return layer

    @model_validator(mode="after")
    def _fits_layer(self) -> Self:
        own = HEADS[self.layer].options
        for option in OWN:
            if getattr(self, option) is not None and option not in own:
                takes = ", ".join(own) or "none of its own"
                raise ValueError(f"a {self.layer} head has no option {option}; it takes {takes}")
        return self

    @property
    def size(self) -> int | None:
        """`dim` where the layer has one."""
        return (self.dim or DIM) if "dim" in HEADS[self.layer].options else None

    def head_options(self, dataset: dict[str, Any]) -> dict[str, Any]:
        """The options of `make_head` for this head, on a dataset with this dataset.json. Imports PyTorch."""
        kind = HEADS[self.layer]
        given = {name: getattr(self, name) for name in kind.options if getattr(self, name) is not None}
        if self.size is not None:
            given["dim"] = self.size
        return kind.load().arguments(given, dataset)

    def train_options(self, dataset: dict[str, Any], seed: int, device: str) -> dict[str, Any]:
        """The arguments of `heads.TrainOptions` for this head."""
        shared = self.model_dump(mode="json", exclude={"name", *OWN})
        return {**shared, "head": self.head_options(dataset), "seed": seed, "device": device}


def check_names(heads: Sequence[HeadParams]) -> None:
    """Raise ValueError where two heads are given one name."""
    given = [head.name for head in heads if head.name is not None]
    for name in given:
        if given.count(name) > 1:
            raise ValueError(f"two heads have the name {name}")


def names_of(heads: Sequence[HeadParams]) -> list[str]:
    """One name per head: the given one, else its layer and size, with a number where that name is taken."""
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
