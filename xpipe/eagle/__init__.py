"""Which samples of a group own its labels: label embedding, assignment, and any method in one call.

Holds nothing of its own: the names that `__init__.pyi` lists are imported on first use.
"""

from __future__ import annotations

from xpipe.ground.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
