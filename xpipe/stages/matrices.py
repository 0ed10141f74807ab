"""How stages pass matrices to each other: parts that a manifest lists, opened by the stage that needs their rows.

Holds no file format: that is `formats.parts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from xpipe.engine.manifest import MANIFEST, Artifact
from xpipe.engine.messages import FileEntry
from xpipe.engine.store import Store
from xpipe.errors import DataError
from xpipe.formats.file_names import SPLITS
from xpipe.ground import files
from xpipe.ground.checked_json import Count, check_value

if TYPE_CHECKING:
    import numpy as np
    import scipy.sparse as sp

    from xpipe.formats.parts import PartedMatrix
    from xpipe.ground.sparse import Triple


FIX = "give the same command again; if it comes back, remove the folder of the stage"


class Width(TypedDict):
    """What `about` of an artifact of matrices must hold."""

    n_columns: Count


@dataclass(frozen=True)
class MatrixRef:
    """What travels to a worker instead of a matrix: the folder of a stage, and the name of an artifact."""

    folder: str
    name: str


def part_path(artifact: str, split: str, index: int) -> str:
    """Where part `index` of a matrix lies, below the folder of its stage."""
    return f"{artifact}/split={split}/part-{index:05d}.arrow"


def matrix_about(n_columns: dict[str, int] | int, part_rows: int, rows: dict[str, int]) -> dict[str, Any]:
    """`about` of an artifact of matrices: width, rows of one part, rows of each split."""
    return {"n_columns": n_columns, "part_rows": part_rows, "rows": rows}


def locate(artifact: Artifact) -> MatrixRef:
    """Where the matrices of an artifact are."""
    return MatrixRef(artifact.folder, artifact.name)


def write_matrix_part(
    folder: str, artifact: str, split: str, index: int, samples: np.ndarray, triple: Triple
) -> FileEntry:
    """Write one part of a matrix below a stage's folder; gives its entry."""
    from xpipe.formats.parts import write_part

    path = part_path(artifact, split, index)
    return FileEntry(path, split=split, **write_part(files.join(folder, path), samples, triple))


@lru_cache(maxsize=64)
def open_matrix(where: MatrixRef, split: str) -> PartedMatrix:
    """The matrix of a split, at a worker. The manifest is read once; rows are read when asked for."""
    from xpipe.formats.parts import PartedMatrix

    manifest = Store(files.parent(where.folder)).open(where.folder)
    path = files.join(where.folder, MANIFEST)
    if manifest is None or where.name not in manifest.artifacts:
        raise DataError(f"a stored stage has no {where.name}", where=path, fix=FIX)
    artifact = manifest.artifacts[where.name]
    width = check_value(artifact.about, Width, where=path, fix=FIX)["n_columns"]
    parts = [entry for entry in artifact.files if entry.split == split]
    starts = [0]
    for entry in parts:
        if entry.rows is None:
            raise DataError(f"a part of {where.name} has no number of rows", where=path, fix=FIX)
        starts.append(starts[-1] + entry.rows)
    return PartedMatrix(tuple(files.join(where.folder, entry.path) for entry in parts), tuple(starts), width)


@lru_cache(maxsize=4)
def load_group_matrix(where: MatrixRef) -> sp.csr_matrix:
    """All of a matrix of groups (membership or group labels), which is small beside the features. Kept per worker."""
    return load_matrix(where)


def load_matrix(where: MatrixRef) -> sp.csr_matrix:
    """All of the matrix of the training split."""
    from xpipe.ground.sparse import to_matrix

    stored = open_matrix(where, "train")
    return to_matrix(stored.load(), stored.n_columns)


def splits_of(artifact: Artifact) -> list[str]:
    """The splits of an artifact of matrices, in the usual order."""
    return sorted(artifact.about["rows"], key=SPLITS.index)


def rows_of(artifact: Artifact, split: str) -> int:
    """The rows of a split."""
    rows: dict[str, int] = artifact.about["rows"]
    return rows[split]


def part_rows(artifact: Artifact, split: str) -> list[int]:
    """The rows of each part of a split, in order."""
    return [entry.rows or 0 for entry in artifact.files if entry.split == split]


def entries_of(artifact: Artifact, split: str) -> int:
    """The stored values of a split."""
    return sum(entry.entries or 0 for entry in artifact.files if entry.split == split)
