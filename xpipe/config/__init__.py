"""Pipeline files: YAML with line numbers, checked against the parameters of stages; mistakes come with close matches.

Holds no parameters of a stage: each stage declares its own.
"""

from __future__ import annotations

from xpipe.config.pipeline_file import Pipeline, load

__all__ = ["Pipeline", "load"]
