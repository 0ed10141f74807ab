"""Label sets of a batch as index lists. Holds no loss."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch


class Targets(NamedTuple):
    """Labels of rows: labels[offsets[row] : offsets[row + 1]], ascending, int64."""

    offsets: torch.Tensor
    labels: torch.Tensor

    def to(self, device: Any) -> Targets:
        return Targets(self.offsets.to(device), self.labels.to(device))

    def counts(self) -> torch.Tensor:
        return self.offsets[1:] - self.offsets[:-1]

    def rows(self) -> torch.Tensor:
        return torch.repeat_interleave(torch.arange(len(self.offsets) - 1, device=self.offsets.device), self.counts())
