"""Verdicts on many sets in modes topk and argmax, part by part in a folder: a run that was killed goes on.

Holds no search and no proof. Points of 128,000 sets of 2,048 inputs take 2 GB: only one part is in memory at a time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow.parquet as pq
import scipy.sparse as sp

from xpipe.argmaxability.lifted import LiftedLayer
from xpipe.argmaxability.modes import Question
from xpipe.argmaxability.options import Radius
from xpipe.argmaxability.verdicts import Verdicts, read_verdicts, write_verdicts
from xpipe.argmaxability.verification import SETS_PER_LARGE_BLOCK, verify_chunk
from xpipe.errors import DataError
from xpipe.ground import files

SETS_PER_PART = 4 * SETS_PER_LARGE_BLOCK  # whole blocks in every mode
ABOUT = "about.json"


@dataclasses.dataclass(frozen=True)
class PartedVerdicts:
    """Verdicts in a folder. bare: all of them without certificates. paths: files of SETS_PER_PART sets each."""

    bare: Verdicts
    sets: sp.csr_matrix
    paths: tuple[str, ...]

    def full(self, number: int) -> tuple[Verdicts, int]:
        """(verdicts of the part that has this set, the number of the set in them)."""
        return read_verdicts(self.paths[number // SETS_PER_PART]), number % SETS_PER_PART

    def parts(self) -> Iterator[tuple[int, Verdicts]]:
        """(number of the first set, verdicts) of every part."""
        for place, path in enumerate(self.paths):
            yield place * SETS_PER_PART, read_verdicts(path)

    def write(self, path: str) -> None:
        """Write all verdicts into one Parquet file, complete or not at all; the bytes of `write_verdicts`' columns."""
        with files.open_write(path) as stream, contextlib.ExitStack() as stack:
            writer = None
            for first, part in self.parts():
                own = self.sets[first : first + len(part)]
                table = part.to_table(own.indptr.astype(np.int64), own.indices.astype(np.int64), first)
                if writer is None:
                    writer = stack.enter_context(pq.ParquetWriter(stream, table.schema, compression="zstd"))
                writer.write_table(table)


def verify_in_parts(
    layer: LiftedLayer,
    sets: sp.csr_matrix,
    folder: str,
    question: Question,
    radius: Radius,
    eps: float,
    box: float,
    threads: int,
    progress: Callable[[int], None],
    done_before: Callable[[int], None],
    memory_limit: str | int | None = None,
) -> PartedVerdicts:
    """Verify distinct sets, and write the verdicts of each part into the folder, which is local.

    Parts that a run with the same rows, sets and options left there are not made again. progress, done_before: called
    with numbers of sets that are done now, and that were done before. memory_limit: as in `verify`, for one part.
    """
    os.makedirs(folder, exist_ok=True)
    about = _describe(layer, sets, question, radius, eps, box)
    if _read_about(folder) != about:
        shutil.rmtree(folder)
        os.makedirs(folder)
        files.write_bytes(os.path.join(folder, ABOUT), json.dumps(about).encode())
    paths, bare = [], []
    for first in range(0, max(sets.shape[0], 1), SETS_PER_PART):
        path = os.path.join(folder, f"{first:09d}.parquet")
        part = sets[first : first + SETS_PER_PART]
        verdicts = _finished(path, part.shape[0])
        if verdicts is None:
            verdicts = verify_chunk(
                layer, part, radius, mode=question.mode, inputs=question.inputs, eps=eps, box=box, threads=threads,
                progress=progress, memory_limit=memory_limit,
            )  # fmt: skip
            write_verdicts(path, verdicts, part.indptr.astype(np.int64), part.indices.astype(np.int64))
        else:
            done_before(part.shape[0])
        paths.append(path)
        bare.append(verdicts.bare())
    return PartedVerdicts(Verdicts.concatenate(bare), sets, tuple(paths))


def _finished(path: str, n_sets: int) -> Verdicts | None:
    """The verdicts of a part that is there; None where it must be made. Files are written complete or not at all."""
    try:
        verdicts = read_verdicts(path) if os.path.exists(path) else None
    except DataError:
        return None
    return verdicts if verdicts is not None and len(verdicts) == n_sets else None


def _describe(
    layer: LiftedLayer, sets: sp.csr_matrix, question: Question, radius: Radius, eps: float, box: float
) -> dict[str, str]:
    """What the verdicts depend on. Of many rows, every number of the mean and of the norms' sum stands for them."""
    digest = hashlib.sha256()
    sample = np.linspace(0, len(layer.rows) - 1, 256).astype(np.int64)
    bias = np.zeros(0) if layer.bias is None else layer.bias
    for array in (sets.indptr, sets.indices, layer.mean, np.float64(layer.largest), layer.weights_of(sample), bias):
        digest.update(np.ascontiguousarray(array).tobytes())
    options = {"mode": question.mode, "inputs": question.inputs, "radius": radius, "eps": repr(eps), "box": repr(box)}
    return {**options, "rows": f"{layer.rows.shape} {layer.rows.dtype}", "sha256": digest.hexdigest()}


def _read_about(folder: str) -> object:
    """What an earlier run said of its parts; None where there is none."""
    try:
        with open(os.path.join(folder, ABOUT), "rb") as stream:
            return json.loads(stream.read(10_000))
    except (OSError, ValueError):
        return None
