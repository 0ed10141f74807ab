"""Pipeline files: YAML with line numbers, checked against what stages take; mistakes come with close matches."""

from __future__ import annotations

from xpipe.config.pipeline_file import Pipeline, load

__all__ = ["Pipeline", "load"]
