"""What a worker does for stage embed: it embeds the labels of one chunk.

Holds no algorithm: that is `eagle.embed`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xpipe.eagle import embed
from xpipe.eagle.options import EmbedOptions
from xpipe.engine.messages import Finished
from xpipe.ground.backend import Backend
from xpipe.ground.sparse import to_triple
from xpipe.stages.embed.params import SPLIT
from xpipe.stages.label_chunks import Grouped, LabelChunk, groups_of, rows_of_samples
from xpipe.stages.matrices import write_matrix_part


@dataclass(frozen=True)
class Embedding(Grouped):
    """What every chunk of labels is embedded from."""

    options: EmbedOptions
    backend: Backend


@dataclass(frozen=True)
class Objective:
    """The objective of the labels of a chunk, before the first step and after each step."""

    objective: tuple[float, ...]


def embed_chunk(folder: str, unit: LabelChunk, shared: Embedding) -> Finished[Objective]:
    """Embed the labels of a chunk and write them as one part."""
    chunk, options = groups_of(unit, shared), shared.options
    X = rows_of_samples(shared.features, chunk.samples)
    E, objective = embed(
        X, chunk.Y1, chunk.Y2, steps=options.steps, step_size=options.step_size, smallest=options.smallest,
        trace=True, threads=1, backend=shared.backend,
    )  # fmt: skip
    numbers = np.arange(unit.first, unit.last)
    entry = write_matrix_part(folder, "label_embedding", SPLIT, unit.number, numbers, to_triple(E))
    return Finished((entry,), Objective(tuple(np.asarray(objective, dtype=np.float64).tolist())))
