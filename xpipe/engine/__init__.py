"""The engine: what a stage is, which stages must run and why, who computes, what is kept.

Holds no particular stage. The names that `__init__.pyi` lists are imported on first use.
"""

from __future__ import annotations

from xpipe.ground.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
