"""What travels between stage train_heads and its workers: heads to train, and trained heads.

Holds no work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xpipe.engine.messages import Unit
from xpipe.stages.train_heads.params import HeadParams

MODELS = "head_models"  # the artifact, and the folder of its files
CHECKPOINTS = "checkpoints"  # the folder of the states of heads in training
STEP = "heads"  # the step of the stage


@dataclass(frozen=True)
class HeadToTrain(Unit):
    """A head, with the name that its files have; its size is 1, because progress counts heads."""

    params: HeadParams


@dataclass(frozen=True)
class Training:
    """What all heads share. dataset: the folder of the emitted heads/ dataset; device: as PyTorch names it."""

    dataset: str
    seed: int
    device: str


@dataclass(frozen=True)
class HeadEntry:
    """What the artifact says of a head.

    dim: None where the layer has none. folder: of its files, inside the stage's folder. options: those of `make_head`.
    parameters: numbers of trainable parameters of the head ("head") and of the whole model ("all").
    """

    name: str
    layer: str
    dim: int | None
    folder: str
    options: dict[str, Any]
    parameters: dict[str, int]


@dataclass(frozen=True)
class TrainedHead:
    """A head and its training. course: figures of the best epoch, its number, the number of epochs. note: for users."""

    head: HeadEntry
    course: dict[str, int | float]
    note: str | None
