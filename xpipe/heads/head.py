"""What every head can do: give probabilities, weights for `verify`, its options, and a file of itself.

Holds no formula of any head. A new head is a subclass of `Head` in a file of its own, and one line in `registry.HEADS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from xpipe.errors import ConfigError
from xpipe.ground import files
from xpipe.heads.packing import pack
from xpipe.heads.targets import Targets

KEY = "xpipe.head"  # of the metadata of a file


class Head(torch.nn.Module):
    """The base of all heads: float [batch, in_dim] to logits [batch, n_labels]; higher logits rank first.

    A subclass sets `layer` and defines `forward`, `loss`, `probabilities`, `weights` and `options`.

    Attributes
    ----------
    layer : str
        The name of the head in `registry.HEADS`; `make_head` and pipeline files use it.
    mode : {"sign", "topk"}
        The mode of `verify` that is the head's own: how the scores of `weights` must be compared. "sign": the head
        predicts the labels with W x + bias > 0. "topk": it predicts the labels with the highest scores, and does not
        change when all scores move together (softmax, LML). The head's line in `registry.HEADS` says the same.
    in_dim, n_labels : int
        Width of the inputs, number of labels.
    """

    layer: ClassVar[str]
    mode: ClassVar[Literal["sign", "topk"]] = "sign"

    def __init__(self, in_dim: int, n_labels: int):
        super().__init__()
        check_counts(in_dim=in_dim, n_labels=n_labels)
        self.in_dim, self.n_labels = in_dim, n_labels

    @classmethod
    def arguments(cls, given: Mapping[str, Any], dataset: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of the class for the options of a pipeline file, besides in_dim and n_labels.

        given: the options that are set, among those of the registry's line; `dim` is always set where the head has it.
        dataset: the dataset.json of the emitted dataset. By default the options are the arguments.
        """
        return dict(given)

    def loss(self, logits: torch.Tensor, targets: Targets) -> torch.Tensor:
        """The head's own loss of logits [batch, n_labels], a mean over the rows of the batch."""
        raise NotImplementedError

    def settle(self, batches: Callable[[], Iterable[tuple[torch.Tensor, Targets]]]) -> None:
        """Adapt to rows that were not trained on, once the weights are final; most heads do nothing.

        batches: gives (logits, targets) of these rows, each time it is called.
        """

    def probabilities(self, x: torch.Tensor) -> torch.Tensor:
        """Probabilities in [0, 1], [batch, n_labels], of inputs [batch, in_dim]."""
        raise NotImplementedError

    def weights(self) -> tuple[np.ndarray, np.ndarray | None]:
        """(W [n_labels, d], bias [n_labels] or None), float64: the scores W x + bias, to be compared as `mode` says."""
        raise NotImplementedError

    def options(self) -> dict[str, Any]:
        """Options with which `make_head(layer, in_dim, n_labels, **options)` builds this head again; JSON values."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        shown = {"in_dim": self.in_dim, "n_labels": self.n_labels, **self.options()}
        return ", ".join(f"{name}={value}" for name, value in shown.items() if not isinstance(value, list))

    def about(self) -> dict[str, Any]:
        """All arguments of `make_head` that build this head again, as its file says them."""
        return {"layer": self.layer, "in_dim": self.in_dim, "n_labels": self.n_labels, "options": self.options()}

    def save(self, path: str) -> None:
        """Write a safetensors file that `load_head` reads: the state, and `about` as JSON in its metadata."""
        files.write_bytes(path, pack(self.state_dict(), self.about(), KEY))


def check_counts(**counts: int) -> None:
    """Raise ConfigError unless all are whole numbers of at least 1."""
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ConfigError(f"`{name}` must be a whole number of at least 1, got {count!r}")


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A copy as float64, on the CPU."""
    found: np.ndarray = tensor.detach().to("cpu", torch.float64).numpy().copy()
    return found
