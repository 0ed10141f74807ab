"""What rows to predict are, whatever they are read from. Holds no reading."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from xpipe.stages.read.work import RowRange


class BlockRows(NamedTuple):
    """Some rows: their numbers in the input, their ids (None where there are none), and their features."""

    numbers: np.ndarray
    ids: list[str] | None
    X: sp.csr_matrix


class InputRows(Protocol):
    """Rows to predict. It travels to workers, so it is a frozen dataclass of paths and numbers."""

    @property
    def n_features(self) -> int:
        """Columns of the rows."""
        ...

    def blocks(self) -> list[RowRange]:
        """The blocks of rows. They never depend on the workers."""
        ...

    def read(self, folder: str, rows: RowRange) -> BlockRows:
        """The rows of a block. folder: the scratch folder that `rows_of_input` was given."""
        ...
