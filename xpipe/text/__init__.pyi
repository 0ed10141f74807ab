"""The public names of `xpipe.text`; `__init__.py` imports each on first use."""

from .options import VectorizerOptions as VectorizerOptions
from .term_counts import TermCounts as TermCounts
from .vectorizer import Vectorizer as Vectorizer
