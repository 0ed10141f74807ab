"""xpipe: from labels on groups of samples to clean extreme multi-label datasets.

Holds the rooms (`xpipe.formats`, `xpipe.grouping`, ...), imported on first use so that `import xpipe` is instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xpipe.ground.lazy import modules_and_names
from xpipe.ground.moved import find_old_names
from xpipe.ground.release import __version__ as __version__

if TYPE_CHECKING:
    from xpipe import argmaxability as argmaxability
    from xpipe import cli as cli
    from xpipe import config as config
    from xpipe import eagle as eagle
    from xpipe import engine as engine
    from xpipe import errors as errors
    from xpipe import formats as formats
    from xpipe import ground as ground
    from xpipe import grouping as grouping
    from xpipe import heads as heads
    from xpipe import integrations as integrations
    from xpipe import metrics as metrics
    from xpipe import report as report
    from xpipe import stages as stages
    from xpipe import synth as synth
    from xpipe import text as text
    from xpipe import trees as trees
    from xpipe.stages.predict.model import load as load

find_old_names()
__getattr__, __dir__, __all__ = modules_and_names(__name__, __file__, {"load": "xpipe.stages.predict.model"})
