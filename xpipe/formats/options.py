"""How the files of a dataset are to be read: options that neither file names nor headers tell.

Holds no reading, and imports nothing slow: sections of pipeline files take their defaults from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

IndexBase = Literal[0, 1]
OnBadRow = Literal["error", "drop"]


@dataclass(frozen=True)
class ReadOptions:
    """Options that hold for all files of a dataset.

    Attributes
    ----------
    header : bool
        Whether XMC text begins with the line `n_samples n_features n_labels`. Without it, `n_features` and `n_labels`
        are needed.
    index_base, label_base : int
        The number that the files give to the first feature and to the first label, 0 or 1. Never guessed.
    n_features, n_labels : int, optional
        Sizes of files without a header.
    split_base : int, optional
        The number that index split files give to the first row, 0 or 1. Never guessed.
    split_column : int
        The column of the index split files to use, from 0. Each column describes one split of the rows.
    on_bad_row : str
        "error" raises on the first row that cannot be read; "drop" leaves such rows out and lists them.
    """

    header: bool = True
    index_base: IndexBase = 0
    label_base: IndexBase = 0
    n_features: int | None = None
    n_labels: int | None = None
    split_base: IndexBase | None = None
    split_column: int = 0
    on_bad_row: OnBadRow = "error"

    @property
    def drops_rows(self) -> bool:
        """Whether rows that cannot be read are left out."""
        return self.on_bad_row == "drop"
