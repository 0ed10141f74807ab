"""How stages hand matrices to each other: parts listed in a manifest, opened by whoever needs rows.

Orchestration only; the files themselves are `formats.parts`.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from xpipe import files
from xpipe.store import MANIFEST, Artifact

if TYPE_CHECKING:
    from xpipe.formats.parts import PartedMatrix


def part_path(artifact: str, split: str, index: int) -> str:
    return f"{artifact}/split={split}/part-{index:05d}.arrow"


def matrix_about(n_columns: dict[str, int] | int, part_rows: int, rows: dict[str, int]) -> dict:
    """The facts an artifact of matrices carries: width, rows of a part, rows of each split."""
    return {"n_columns": n_columns, "part_rows": part_rows, "rows": rows}


def locate(artifact: Artifact) -> list[str]:
    """What travels to a worker instead of the matrix."""
    return [artifact.folder, artifact.name]


def open_matrix(where: list[str], split: str) -> PartedMatrix:
    """The matrix of a split, at a worker. Opening costs the manifest once; rows are read when asked for."""
    return _open(where[0], where[1], split)


@lru_cache(maxsize=64)
def _open(folder: str, name: str, split: str) -> PartedMatrix:
    from xpipe.formats.parts import PartedMatrix

    artifact: dict[str, Any] = json.loads(files.read_bytes(files.join(folder, MANIFEST)))["artifacts"][name]
    parts = [entry for entry in artifact["files"] if entry.get("split") == split]
    starts = [0]
    for entry in parts:
        starts.append(starts[-1] + entry["rows"])
    paths = tuple(files.join(folder, entry["path"]) for entry in parts)
    return PartedMatrix(paths, tuple(starts), artifact["about"]["n_columns"])


def splits_of(artifact: Artifact) -> list[str]:
    return sorted(artifact.about["rows"], key=("train", "test", "dev").index)


def rows_of(artifact: Artifact, split: str) -> int:
    return artifact.about["rows"][split]


def part_rows(artifact: Artifact, split: str) -> list[int]:
    """Rows of each part of a split, in order."""
    return [entry["rows"] for entry in artifact.files if entry.get("split") == split]


def entries_of(artifact: Artifact, split: str) -> int:
    return sum(entry["entries"] for entry in artifact.files if entry.get("split") == split)
