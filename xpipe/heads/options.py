"""What a training run can be asked for, and what is wrong with what was asked.

Holds no data and no work, and imports no PyTorch.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from xpipe.errors import ConfigError

Criterion = Literal["ndcg", "loss"]
Device = Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True)
class TrainOptions:
    """All that decides a trained head besides its data.

    layer, head: name of the head and its own options, as `make_head` takes them. width, hidden, normalize, dropout: of
    the encoder. epochs at most; patience: epochs without a better criterion before it stops. validation: share of the
    training rows held out for the criterion: nDCG@5, which compares heads whose losses cannot be compared, or the
    head's own loss; with 0 every epoch is trained and the last one kept. batch_size, learning_rate, weight_decay: of
    AdamW; biases do not decay. seed: first weights, order of rows, held-out rows. device: auto tries CUDA before it
    believes in it; mixed_precision: bfloat16 products, on CUDA only. threads: of PyTorch on the CPU; their number
    changes sums in the last bits, so it is part of the options and not taken from the machine.
    Raises ConfigError, for the first option that is out of range.
    """

    layer: str
    head: dict[str, Any] = field(default_factory=dict)
    width: int = 256
    hidden: int | None = None
    normalize: bool = True
    dropout: float = 0.0
    epochs: int = 30
    patience: int = 3
    batch_size: int = 256
    learning_rate: float = 1e-2
    weight_decay: float = 0.01
    validation: float = 0.1
    criterion: Criterion = "ndcg"
    seed: int = 0
    device: Device = "auto"
    mixed_precision: bool = True
    threads: int = 1

    def __post_init__(self) -> None:
        whole = {"width": self.width, "hidden": 1 if self.hidden is None else self.hidden, "epochs": self.epochs}
        whole |= {"patience": self.patience, "batch_size": self.batch_size, "threads": self.threads}
        for name, value in whole.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"`{name}` must be a whole number from 1 on, got {value!r}")
        for name in ("learning_rate", "weight_decay", "dropout", "validation"):
            number = getattr(self, name)
            if not math.isfinite(number) or number < 0 or (name == "learning_rate" and number == 0):
                least = "above" if name == "learning_rate" else "at least"
                raise ConfigError(f"`{name}` must be {least} 0, got {number}")
        for name in ("dropout", "validation"):
            if getattr(self, name) >= 1:
                raise ConfigError(f"`{name}` must be below 1, got {getattr(self, name)}")
        for name, allowed in (("criterion", get_args(Criterion)), ("device", get_args(Device))):
            if getattr(self, name) not in allowed:
                raise ConfigError(f"`{name}` must be one of {', '.join(allowed)}, got {getattr(self, name)!r}")

    def decisive(self, device: str) -> dict[str, Any]:
        """The options as plain JSON values, with the device that was chosen: checkpoints of others are refused."""
        return {**asdict(self), "device": device}
