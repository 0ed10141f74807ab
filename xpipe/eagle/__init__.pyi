"""The public names of `xpipe.eagle`; `__init__.py` imports each on first use."""

from .assignment import assign as assign
from .assignment import embed_and_assign as embed_and_assign
from .embedding import CentredEmbedding as CentredEmbedding
from .embedding import embed as embed
from .group_label_imputer import GroupLabelImputer as GroupLabelImputer
from .imputation import Imputed as Imputed
from .imputation import impute as impute
