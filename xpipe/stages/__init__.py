"""The stages in the order of the data. One folder per stage: `stage.py` declares it, `work.py` runs at a worker.

Holds no arithmetic and no parsing: rooms do that.
"""

from __future__ import annotations

from xpipe.engine.params import Params
from xpipe.engine.stage import Stage
from xpipe.stages.assign.stage import ASSIGN
from xpipe.stages.embed.stage import EMBED
from xpipe.stages.emit.stage import EMIT
from xpipe.stages.evaluate.stage import EVALUATE
from xpipe.stages.group.stage import GROUP
from xpipe.stages.read.stage import READ
from xpipe.stages.synth.stage import SYNTH
from xpipe.stages.train_heads.stage import TRAIN_HEADS
from xpipe.stages.train_trees.stage import TRAIN
from xpipe.stages.verify.stage import VERIFY

STAGES: tuple[Stage, ...] = (SYNTH, READ, GROUP, EMBED, ASSIGN, EMIT, TRAIN, TRAIN_HEADS, VERIFY, EVALUATE)

__all__ = ["STAGES", "Params", "Stage"]
