"""What every head can do: give probabilities, weights for `verify`, its options, and a file of itself.

Holds no formula of any head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np
import torch

from xpipe.errors import ConfigError
from xpipe.ground import files
from xpipe.heads.packing import pack
from xpipe.heads.targets import Targets

KEY = "xpipe.head"  # of the metadata of a file


class Head(torch.nn.Module):
    """float [batch, in_dim] to logits [batch, n_labels]; ranks labels by logits. `layer`: its name in `make_head`."""

    layer: ClassVar[str]

    def __init__(self, in_dim: int, n_labels: int):
        super().__init__()
        check_counts(in_dim=in_dim, n_labels=n_labels)
        self.in_dim, self.n_labels = in_dim, n_labels

    def loss(self, logits: torch.Tensor, targets: Targets) -> torch.Tensor:
        """The head's own loss, a mean over the rows of the batch."""
        raise NotImplementedError

    def settle(self, batches: Callable[[], Iterable[tuple[torch.Tensor, Targets]]]) -> None:
        """Called once the weights are final, with (logits, targets) of rows not trained on: most heads need nothing."""

    def probabilities(self, x: torch.Tensor) -> torch.Tensor:
        """In [0, 1], [batch, n_labels]."""
        raise NotImplementedError

    def weights(self) -> tuple[np.ndarray, np.ndarray | None]:
        """(W [n_labels, d], bias [n_labels] or None), float64: labels with W x + bias > 0 are the ones it predicts."""
        raise NotImplementedError

    def options(self) -> dict[str, Any]:
        """What `make_head(layer, in_dim, n_labels, **options)` needs to build this head again; JSON values."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        shown = {"in_dim": self.in_dim, "n_labels": self.n_labels, **self.options()}
        return ", ".join(f"{name}={value}" for name, value in shown.items() if not isinstance(value, list))

    def about(self) -> dict[str, Any]:
        """What `make_head` takes to build this head again, as a file of it says."""
        return {"layer": self.layer, "in_dim": self.in_dim, "n_labels": self.n_labels, "options": self.options()}

    def save(self, path: str) -> None:
        """Write a safetensors file that `load_head` reads: the state, and options as JSON in its metadata."""
        files.write_bytes(path, pack(self.state_dict(), self.about(), KEY))


def check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ConfigError(f"`{name}` must be a whole number of at least 1, got {count!r}")


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """float64, on the CPU, a copy."""
    return tensor.detach().to("cpu", torch.float64).numpy().copy()
