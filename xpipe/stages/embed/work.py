"""Label vectors at a worker, one chunk of labels at a time. The algorithm is `eagle.embed`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xpipe.eagle import embed
from xpipe.engine.messages import Finished
from xpipe.ground.backend import Backend
from xpipe.ground.sparse import to_triple
from xpipe.stages.embed.params import SPLIT
from xpipe.stages.label_chunks import Grouped, LabelChunk, groups_of, rows_of_samples
from xpipe.stages.matrices import write_matrix_part


@dataclass(frozen=True)
class Embedding(Grouped):
    """What the vectors are made of."""

    steps: int
    step_size: float
    smallest: float
    backend: Backend


@dataclass(frozen=True)
class Objective:
    """The value of what is maximised, before the first step and after each."""

    objective: tuple[float, ...]


def embed_chunk(folder: str, unit: LabelChunk, shared: Embedding) -> Finished[Objective]:
    """The vectors of the labels of a chunk, as one part."""
    samples, Y1, Y2 = groups_of(unit, shared)
    X = rows_of_samples(shared.features, samples)
    E, objective = embed(
        X, Y1, Y2, steps=shared.steps, step_size=shared.step_size, smallest=shared.smallest, trace=True, threads=1,
        backend=shared.backend,
    )  # fmt: skip
    numbers = np.arange(unit.first, unit.last)
    entry = write_matrix_part(folder, "label_embedding", SPLIT, unit.number, numbers, to_triple(E))
    return Finished((entry,), Objective(tuple(np.asarray(objective, dtype=np.float64).tolist())))
