"""The public names of `xpipe.text`; `__init__.py` imports each on first use."""

from .columns import ColumnFeatures as ColumnFeatures
from .options import VectorizerOptions as VectorizerOptions
from .table_vectorizer import TableVectorizer as TableVectorizer
from .term_counts import TermCounts as TermCounts
from .vectorizer import Vectorizer as Vectorizer
