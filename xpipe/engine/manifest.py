"""Manifests: what a finished stage left, with the ingredients of its content key.

Reads files only to check their digests, and writes none: `store` reads and writes manifests.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NotRequired

from typing_extensions import TypedDict

from xpipe.engine.messages import FileEntry, entry_from
from xpipe.engine.paths import is_plain_file, is_there
from xpipe.ground import files
from xpipe.ground.checked_json import Count, InsidePath, Sha256

STORE_FORMAT = 1
MANIFEST = "manifest.json"


class EntryContent(TypedDict):
    """A `FileEntry` as manifests and receipts hold it."""

    path: InsidePath
    bytes: Count
    sha256: Sha256
    split: NotRequired[str]
    rows: NotRequired[Count]
    entries: NotRequired[Count]
    dataset: NotRequired[str]


class ArtifactContent(TypedDict):
    """An `Artifact` as a manifest holds it."""

    digest: Sha256
    about: dict[str, Any]
    files: list[EntryContent]


class StepTimes(TypedDict):
    """One step of a stage: four columns with one entry per unit, in the order in which tasks finished.

    task_of: the number of the unit's task, in the order in which tasks were given to workers.
    together: whether a task has its units at once, so that seconds of single units mean little. bundled: whether units
    were bundled into tasks by their sizes. bytes_per_row: as in `Context.map`. opening: seconds until the workers were
    there; `seconds` are those after it.
    """

    step: str
    seconds: float | int
    opening: float | int
    together: bool
    bundled: bool
    bytes_per_row: float | int
    task_of: list[int]
    worker_of: list[int]
    sizes: list[int]
    unit_seconds: list[float | int]


class Cost(TypedDict):
    """What it took to make a stage. No key and no digest depends on it."""

    seconds: float | int
    peak_memory: Count
    steps: NotRequired[list[StepTimes]]  # not there where an older xpipe made it


class ManifestContent(TypedDict):
    """A `Manifest` as manifest.json holds it."""

    stage: str
    key: str
    ingredients: dict[str, Any]
    summary: dict[str, Any]
    artifacts: dict[str, ArtifactContent]
    cost: NotRequired[Cost]


def content_key(ingredients: dict[str, Any]) -> str:
    """The content key of a stage with these ingredients. The manifest keeps them, so that a key can be explained."""
    return hashlib.sha256(json.dumps(ingredients, sort_keys=True).encode()).hexdigest()[:20]


@dataclass(frozen=True)
class Artifact:
    """One named output of a finished stage: its files, and what the stage states about them (`about`).

    folder: the folder of the stage.
    """

    name: str
    folder: str
    digest: str
    files: tuple[FileEntry, ...]
    about: dict[str, Any]


@dataclass
class Manifest:
    """What a finished stage left: the ingredients of its key, its artifacts, and a summary for people."""

    stage: str
    key: str
    folder: str
    ingredients: dict[str, Any]
    artifacts: dict[str, Artifact]
    summary: dict[str, Any] = field(default_factory=dict)
    broken: bool = False  # manifest.json exists, but it is damaged
    cost: Cost | None = None  # None: an older xpipe made it

    def to_json(self) -> dict[str, Any]:
        """The content of manifest.json."""
        return ({"cost": self.cost} if self.cost is not None else {}) | {
            "stage": self.stage,
            "key": self.key,
            "ingredients": self.ingredients,
            "summary": self.summary,
            "artifacts": {
                name: {"digest": a.digest, "about": a.about, "files": [entry.to_json() for entry in a.files]}
                for name, a in self.artifacts.items()
            },
        }

    @classmethod
    def from_json(cls, folder: str, content: Mapping[str, Any]) -> Manifest:
        """Make a manifest from the checked content of manifest.json in a stage's folder."""
        artifacts = {
            name: Artifact(name, folder, a["digest"], tuple(entry_from(entry) for entry in a["files"]), a["about"])
            for name, a in content["artifacts"].items()
        }
        stage, key, ingredients, summary = (content[name] for name in ("stage", "key", "ingredients", "summary"))
        return cls(stage, key, folder, ingredients, artifacts, summary, cost=content.get("cost"))


def artifact_digest(entries: Iterable[FileEntry], about: dict[str, Any]) -> str:
    """The digest of an artifact: of the paths and digests of its files, and of what is stated about them.

    It depends on no machine and no time.
    """
    listed = sorted((entry.path, entry.sha256) for entry in entries)
    return hashlib.sha256(json.dumps([listed, about], sort_keys=True).encode()).hexdigest()


def file_damage(folder: str, entry: FileEntry) -> str:
    """Why a stored file is not the one that was written; "" if it is undamaged."""
    path = files.join(folder, entry.path)
    try:
        if not is_there(path):
            return f"{entry.path} is missing"
        if not is_plain_file(path):
            return f"{entry.path} is not a file"
        if files.size(path) != entry.bytes:
            return f"{entry.path} has {files.size(path):,} bytes instead of {entry.bytes:,}"
        if files.sha256(path) != entry.sha256:
            return f"{entry.path} has another digest than when it was written"
    except (OSError, ValueError) as error:  # ValueError: the path has a NUL character
        return f"{entry.path} cannot be read: {error}"
    return ""
