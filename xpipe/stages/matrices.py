"""How stages hand matrices to each other: parts listed in a manifest, opened by whoever needs rows.

Orchestration only; the files themselves are `formats.parts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from xpipe.engine.messages import FileEntry
from xpipe.engine.store import MANIFEST, Artifact, Store
from xpipe.errors import DataError
from xpipe.ground import files
from xpipe.ground.checked_json import Count, check_value

if TYPE_CHECKING:
    import numpy as np

    from xpipe.formats.parts import PartedMatrix
    from xpipe.ground.sparse import Triple


FIX = "give the same command again; if it comes back, remove the folder of the stage"


class Width(TypedDict):
    """What the facts of an artifact of matrices must hold."""

    n_columns: Count


@dataclass(frozen=True)
class MatrixRef:
    """What travels to a worker instead of a matrix: the stage's folder, and the artifact's name."""

    folder: str
    name: str


def part_path(artifact: str, split: str, index: int) -> str:
    return f"{artifact}/split={split}/part-{index:05d}.arrow"


def matrix_about(n_columns: dict[str, int] | int, part_rows: int, rows: dict[str, int]) -> dict:
    """The facts an artifact of matrices carries: width, rows of a part, rows of each split."""
    return {"n_columns": n_columns, "part_rows": part_rows, "rows": rows}


def locate(artifact: Artifact) -> MatrixRef:
    return MatrixRef(artifact.folder, artifact.name)


def write_matrix_part(
    folder: str, artifact: str, split: str, index: int, samples: np.ndarray, triple: Triple
) -> FileEntry:
    """Write one part of a matrix of this stage; gives its entry."""
    from xpipe.formats.parts import write_part

    path = part_path(artifact, split, index)
    return FileEntry(path, split=split, **write_part(files.join(folder, path), samples, triple))


@lru_cache(maxsize=64)
def open_matrix(where: MatrixRef, split: str) -> PartedMatrix:
    """The matrix of a split, at a worker. Opening costs the manifest once; rows are read when asked for."""
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


def splits_of(artifact: Artifact) -> list[str]:
    return sorted(artifact.about["rows"], key=("train", "test", "dev").index)


def rows_of(artifact: Artifact, split: str) -> int:
    return artifact.about["rows"][split]


def part_rows(artifact: Artifact, split: str) -> list[int]:
    """Rows of each part of a split, in order."""
    return [entry.rows or 0 for entry in artifact.files if entry.split == split]


def entries_of(artifact: Artifact, split: str) -> int:
    return sum(entry.entries or 0 for entry in artifact.files if entry.split == split)
