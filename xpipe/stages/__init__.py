"""The stages in the order of the data. One file a stage: orchestration only, no arithmetic, no parsing."""

from __future__ import annotations

from xpipe.stages.assign import ASSIGN
from xpipe.stages.embed import EMBED
from xpipe.stages.emit import EMIT
from xpipe.stages.evaluate import EVALUATE
from xpipe.stages.group import GROUP
from xpipe.stages.read import READ
from xpipe.stages.stage import Params, Stage
from xpipe.stages.synth import SYNTH
from xpipe.stages.train import TRAIN
from xpipe.stages.train_heads import TRAIN_HEADS
from xpipe.stages.verify import VERIFY

STAGES: tuple[Stage, ...] = (SYNTH, READ, GROUP, EMBED, ASSIGN, EMIT, TRAIN, TRAIN_HEADS, VERIFY, EVALUATE)

__all__ = ["STAGES", "Params", "Stage"]
