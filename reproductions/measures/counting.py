"""The share of label sets that a layer can produce, by counting. Holds no formula: `xpipe.argmaxability` has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reproductions.configuration import Measured


def measure(options: Mapping[str, Any], data: str | None) -> Measured:
    """log10 of the share. options: labels, inputs."""
    from xpipe.argmaxability import log10_share

    labels, inputs = options["labels"], options["inputs"]
    return Measured({f"log10 of the share, {labels} labels, {inputs} inputs": log10_share(labels, inputs)})
