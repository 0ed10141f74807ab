"""The options of a training run, and their checks.

Holds no training, and imports no PyTorch.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from xpipe.errors import ConfigError

Criterion = Literal["ndcg", "loss"]
Device = Literal["auto", "cpu", "cuda"]
Calibrate = Literal["isotonic", "none"]


@dataclass(frozen=True)
class TrainOptions:
    """Everything that decides a trained head besides its data.

    Parameters
    ----------
    layer : str
        The name of the head, as `make_head` takes it.
    head : dict, optional
        The head's own options, as `make_head` takes them.
    width, hidden, normalize, dropout
        Of the encoder, see `SparseEncoder`.
    epochs : int, default 30
        At most.
    patience : int, default 3
        Training stops after so many epochs without a better criterion.
    batch_size : int, default 256
        Rows per batch, at most.
    learning_rate, weight_decay : float, default 1e-2 and 0.01
        Of AdamW; biases do not decay.
    validation : float, default 0.1
        Share of the training rows held out for the criterion. With 0 all epochs are trained, and the last one is kept.
    criterion : {"ndcg", "loss"}, default "ndcg"
        nDCG@5 of the held-out rows, which compares heads with different losses, or the head's own loss.
    seed : int, default 0
        For the first weights, the order of rows and the held-out rows.
    device : {"auto", "cpu", "cuda"}, default "auto"
        "auto" tries a computation on CUDA before it is chosen.
    mixed_precision : bool, default True
        Products in bfloat16, on CUDA only.
    threads : int, default 1
        Of PyTorch on the CPU. Their number changes the last bits of sums, so it is not taken from the machine.
    calibrate : {"isotonic", "none"}, default "isotonic"
        Whether predicted probabilities pass through a map that is fitted to the held-out rows. Without held-out rows
        there is none.

    Raises
    ------
    ConfigError
        For the first option that is out of range.

    Examples
    --------
    >>> from xpipe.heads import TrainOptions
    >>> options = TrainOptions("dft", {"k": 8, "slack": 32}, epochs=5)
    >>> options.batch_size, options.criterion
    (256, 'ndcg')
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
    calibrate: Calibrate = "isotonic"

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
        named = (("criterion", Criterion), ("device", Device), ("calibrate", Calibrate))
        for name, allowed in ((name, get_args(kind)) for name, kind in named):
            if getattr(self, name) not in allowed:
                raise ConfigError(f"`{name}` must be one of {', '.join(allowed)}, got {getattr(self, name)!r}")

    def decisive(self, device: str) -> dict[str, Any]:
        """The options that decide weights, with the chosen device: they say which checkpoints belong to a run."""
        return {name: value for name, value in asdict(self).items() if name != "calibrate"} | {"device": device}
