"""A small emitted heads/ dataset with a learnable signal, written by the project's own writers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from xpipe.formats.parquet import write_dataset_part
from xpipe.ground.checked_json import dump_json
from xpipe.ground.sparse import canonical, to_triple

N_FEATURES, N_LABELS = 60, 12


def make_rows(n_rows: int, seed: int = 0) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """(X, Y): every label is a planted feature and shows some others; a row in ten has no label."""
    rng = np.random.default_rng(seed)
    Y = (rng.random((n_rows, N_LABELS)) < 2 / N_LABELS) & (rng.random((n_rows, 1)) > 0.1)
    X = rng.random((n_rows, N_FEATURES)) * (rng.random((n_rows, N_FEATURES)) < 0.1)
    X[:, :N_LABELS] += 2.0 * Y
    return canonical(sp.csr_matrix(X.astype(np.float32))), canonical(sp.csr_matrix(Y.astype(np.float32)))


def write_heads(folder: Path, n_rows: int = 500, part_rows: int = 170, row_group: int = 16, n_test: int = 100) -> str:
    """The folder of the dataset; rows of split train have the sample numbers 1000, 1007, 1014, ..."""
    splits: dict[str, dict] = {}
    k = 1
    for split, rows, seed in (("train", n_rows, 0), ("test", n_test, 1)):
        X, Y = make_rows(rows, seed)
        parts = []
        for index, first in enumerate(range(0, rows, part_rows)):
            last = min(first + part_rows, rows)
            path = f"split={split}/part-{index:05d}.parquet"
            written = write_dataset_part(
                str(folder / path), 1000 + 7 * np.arange(first, last), to_triple(X[first:last]),
                to_triple(Y[first:last]), n_features=N_FEATURES, n_labels=N_LABELS, row_group=row_group,
            )  # fmt: skip
            parts.append({"path": path, **written})
        splits[split] = {"rows": rows, "parts": parts}
        k = max(k, int(np.diff(Y.indptr).max(initial=0)))
    about = {"n_features": N_FEATURES, "n_labels": N_LABELS, "splits": splits, "k": k, "dataset": "heads"}
    (folder / "dataset.json").write_bytes(dump_json(about))
    return str(folder)
