"""What the engine expects of a pipeline. `config.Pipeline` is one, made from a pipeline file.

Holds a declaration only: files are read and checked by `config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from xpipe.engine.cluster.calls import ClusterParams
from xpipe.engine.stage import Stage


class Pipeline(Protocol):
    """A checked pipeline. It also has one attribute per stage section: the params, or None where the stage is off."""

    stages: ClassVar[tuple[Stage, ...]]  # all stages that the file was checked with, in the order of the data

    @property
    def name(self) -> str:
        """The name of the run."""
        ...

    @property
    def seed(self) -> int:
        """The seed of everything random."""
        ...

    @property
    def cluster(self) -> ClusterParams:
        """Who computes."""
        ...

    @property
    def backend(self) -> str:
        """The backend asked for: auto, cpu or gpu."""
        ...

    @property
    def out(self) -> str:
        """The folder of the results."""
        ...

    @property
    def store(self) -> str:
        """The folder of the artifacts."""
        ...

    @property
    def matrix(self) -> Mapping[str, list[Any]]:
        """For a sweep: each key that varies, with its values."""
        ...

    def to_json(self) -> dict[str, Any]:
        """All settings that are not null, as plain JSON values."""
        ...
