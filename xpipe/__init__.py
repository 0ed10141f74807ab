"""xpipe: from labels on groups of samples to clean extreme multi-label datasets.

Holds the rooms (`xpipe.formats`, `xpipe.grouping`, ...), imported on first use so that `import xpipe` is instant.
"""

from __future__ import annotations

from xpipe.ground.lazy import public_names
from xpipe.ground.moved import find_old_names

__version__ = "0.1.0"

find_old_names()
__getattr__, __dir__, __all__ = public_names(__name__, __file__)
