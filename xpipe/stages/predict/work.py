"""What a worker does for `xpipe predict`: the best labels of a block of rows become a table of predictions.

Holds no algorithm (`model`), no order of work (`predicting`) and no reading (`input_rows`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from xpipe.engine.messages import FileEntry, Finished, Unit
from xpipe.formats.parquet_writing import write_table
from xpipe.ground import files
from xpipe.stages.predict.block_rows import InputRows
from xpipe.stages.predict.model import Model, open_model
from xpipe.stages.predict.run_models import StoredModel
from xpipe.stages.read.work import RowRange

# One row per predicted label, best first within each input row. id, name: null where there are none.
COLUMNS = [
    ("row", pa.int64()),
    ("id", pa.string()),
    ("rank", pa.int32()),
    ("label", pa.int32()),
    ("name", pa.string()),
    ("score", pa.float32()),
]


@dataclass(frozen=True)
class Predicting:
    """What all blocks share. threshold: predictions with a lower score are left out."""

    rows: InputRows
    model: StoredModel
    k: int
    threshold: float


@dataclass(frozen=True)
class Block(Unit):
    """A block of rows; its size is its number of rows."""

    rows: RowRange


@dataclass(frozen=True)
class Predicted:
    """How many predictions a block has, and the path of its table below the scratch folder."""

    predictions: int
    path: str


@lru_cache(maxsize=1)
def _model(stored: StoredModel, stamp: str) -> Model:
    """The model; a process keeps the last one. stamp: differs where another file took its place."""
    return open_model(stored)


def predict_block(folder: str, unit: Block, shared: Predicting) -> Finished[Predicted]:
    """Predict the rows of a block, and write the table of its predictions."""
    block = shared.rows.read(folder, unit.rows)
    model = _model(shared.model, repr(files.stamp(shared.model.path)))
    found = model.rank(block.X, shared.k, threads=1)
    rows, places = np.nonzero((found.labels >= 0) & (found.scores >= np.float32(shared.threshold)))
    labels = found.labels[rows, places]
    columns = [
        pa.array(block.numbers[rows], pa.int64()),
        pa.array([None if block.ids is None else block.ids[row] for row in rows.tolist()], pa.string()),
        pa.array(places + 1, pa.int32()),
        pa.array(labels, pa.int32()),
        pa.array([model.labels[label] if model.has_names else None for label in labels.tolist()], pa.string()),
        pa.array(found.scores[rows, places], pa.float32()),
    ]
    path = f"blocks/{unit.name}.parquet"
    written = write_table(files.join(folder, path), COLUMNS, columns, {"n_labels": str(len(model.labels))}, 1 << 20)
    return Finished((FileEntry(path, **written),), Predicted(len(rows), path))
