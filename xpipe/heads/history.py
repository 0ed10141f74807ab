"""The epochs of a training run as its checkpoint tells them, readable without PyTorch.

Holds no tensors (`checkpoint`) and no training.
"""

from __future__ import annotations

import contextlib
from typing import NotRequired

from typing_extensions import TypedDict

from xpipe.errors import DataError
from xpipe.ground import files
from xpipe.ground.checked_json import Count, read_json

STATE = "checkpoint.json"  # the file of a checkpoint that is written last


class EpochRecord(TypedDict):
    """One trained epoch: its number from 1, the mean training loss, and loss and nDCG@5 of the held-out rows."""

    epoch: Count
    loss: float
    validation_loss: NotRequired[float]
    validation_ndcg: NotRequired[float]


class EpochLog(TypedDict):
    """All epochs so far, and the number of the best one."""

    history: list[EpochRecord]
    best_epoch: Count


class _Logged(TypedDict):
    facts: EpochLog


def read_history(folder: str) -> list[EpochRecord]:
    """The epochs of the checkpoint in a folder; empty where there is none, or a damaged one."""
    with contextlib.suppress(OSError, DataError):
        return read_json(files.join(folder, STATE), _Logged)["facts"]["history"]
    return []
