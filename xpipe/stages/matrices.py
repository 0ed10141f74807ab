"""How stages hand matrices to each other: parts listed in a manifest, opened by whoever needs rows.

Orchestration only; the files themselves are `formats.parts`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from xpipe.engine.store import MANIFEST, Artifact, Store
from xpipe.errors import DataError
from xpipe.ground import files
from xpipe.ground.checked_json import Count, InsidePath, check_value

if TYPE_CHECKING:
    from xpipe.formats.parts import PartedMatrix


FIX = "give the same command again; if it comes back, remove the folder of the stage"


class Width(TypedDict):
    """What the facts of an artifact of matrices must hold."""

    n_columns: Count


class Part(TypedDict):
    """What the entry of a part must hold."""

    path: InsidePath
    rows: Count


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

    where = files.join(folder, MANIFEST)
    manifest = Store(files.parent(folder)).open(folder)
    if manifest is None or name not in manifest.artifacts:
        raise DataError(f"a stored stage has no {name}", where=where, fix=FIX)
    artifact = manifest.artifacts[name]
    width = check_value(artifact.about, Width, where=where, fix=FIX)["n_columns"]
    of_split = [entry for entry in artifact.files if entry.get("split") == split]
    parts = check_value(of_split, list[Part], where=where, fix=FIX)
    starts = [0]
    for entry in parts:
        starts.append(starts[-1] + entry["rows"])
    return PartedMatrix(tuple(files.join(folder, entry["path"]) for entry in parts), tuple(starts), width)


def splits_of(artifact: Artifact) -> list[str]:
    return sorted(artifact.about["rows"], key=("train", "test", "dev").index)


def rows_of(artifact: Artifact, split: str) -> int:
    return artifact.about["rows"][split]


def part_rows(artifact: Artifact, split: str) -> list[int]:
    """Rows of each part of a split, in order."""
    return [entry["rows"] for entry in artifact.files if entry.get("split") == split]


def entries_of(artifact: Artifact, split: str) -> int:
    return sum(entry["entries"] for entry in artifact.files if entry.get("split") == split)
