"""A run or a matrix of runs as one self-contained HTML file, with pictures, their numbers, and how to make it again.

Holds nothing of its own: the names that `__init__.pyi` lists are imported on first use.
"""

from __future__ import annotations

from xpipe.ground.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
