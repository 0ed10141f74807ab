"""xpipe: from labels on groups of samples to clean extreme multi-label datasets.

Holds the rooms (`xpipe.formats`, `xpipe.grouping`, ...), imported on first use so that `import xpipe` is instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xpipe.ground.lazy import modules_and_names
from xpipe.ground.moved import find_old_names

if TYPE_CHECKING:
    from . import argmaxability as argmaxability
    from . import cli as cli
    from . import config as config
    from . import eagle as eagle
    from . import engine as engine
    from . import errors as errors
    from . import formats as formats
    from . import ground as ground
    from . import grouping as grouping
    from . import heads as heads
    from . import integrations as integrations
    from . import metrics as metrics
    from . import report as report
    from . import stages as stages
    from . import synth as synth
    from . import text as text
    from . import trees as trees
    from .stages.predict.model import load as load

__version__ = "0.1.0"

find_old_names()
__getattr__, __dir__, __all__ = modules_and_names(__name__, __file__, {"load": "xpipe.stages.predict.model"})
