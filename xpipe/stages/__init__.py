"""The stages in the order of the data. One folder per stage: `stage.py` declares it, `work.py` runs at a worker.

Holds no arithmetic and no parsing: rooms do that.
"""

from __future__ import annotations

from importlib import import_module

from xpipe.engine.params import Params
from xpipe.engine.stage import Stage

# The registry: one folder of xpipe/stages per line. Its `stage.py` declares STAGE.
FOLDERS = (
    "synth",
    "read",
    "vectorize",
    "group",
    "embed",
    "assign",
    "emit",
    "train_trees",
    "train_heads",
    "verify",
    "evaluate",
    "report",
)
STAGES: tuple[Stage, ...] = tuple(import_module(f"xpipe.stages.{folder}.stage").STAGE for folder in FOLDERS)

__all__ = ["STAGES", "Params", "Stage"]
