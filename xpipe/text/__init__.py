"""Texts to rows: the vectorizer, with the parameters and results of scikit-learn's TfidfVectorizer.

Holds nothing of its own: the names that `__init__.pyi` lists are imported on first use.
"""

from __future__ import annotations

from xpipe.ground.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
