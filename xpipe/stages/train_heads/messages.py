"""What travels between stage train_heads and its workers: a head to train, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xpipe.engine.messages import Unit
from xpipe.stages.train_heads.params import HeadParams

MODELS = "head_models"  # the artifact, and the folder of its files
CHECKPOINTS = "checkpoints"  # the folder of what a head in training has learned so far


@dataclass(frozen=True)
class HeadToTrain(Unit):
    """A head, by the name that its files have; its size is 1, as progress counts heads."""

    params: HeadParams


@dataclass(frozen=True)
class Training:
    """What all heads share. dataset: the folder of the emitted heads/; device: as PyTorch names it."""

    dataset: str
    seed: int
    device: str


@dataclass(frozen=True)
class HeadFacts:
    """What the artifact says of a head.

    dim: None where the layer has none; folder: of its files, below the stage's; options: of `make_head`; parameters:
    trainable ones of the head and in all.
    """

    name: str
    layer: str
    dim: int | None
    folder: str
    options: dict[str, Any]
    parameters: dict[str, int]


@dataclass(frozen=True)
class TrainedHead:
    """course: figures of the best epoch, and how many there were. note: what people should know, mostly nothing."""

    head: HeadFacts
    course: dict[str, int | float]
    note: str | None
