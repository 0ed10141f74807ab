"""The public names of `xpipe.argmaxability`; `__init__.py` imports each on first use."""

from .certificate import check as check
from .counting import count_argmaxable as count_argmaxable
from .counting import log10_share as log10_share
from .dft import DftCertificate as DftCertificate
from .dft import dft_argmaxable as dft_argmaxable
from .dft import dft_certificate as dft_certificate
from .dft import dft_matrix as dft_matrix
from .dft import find_dft_k as find_dft_k
from .dft import sign_changes as sign_changes
from .explanation import Explanation as Explanation
from .explanation import explain as explain
from .lifted import LiftedLayer as LiftedLayer
from .lifted import prepare_rows as prepare_rows
from .margins import unit_margins as unit_margins
from .ordering import order_labels as order_labels
from .output_layer import OutputLayer as OutputLayer
from .output_layer import prepare_layer as prepare_layer
from .sets import distinct_sets as distinct_sets
from .stored_rows import StoredRows as StoredRows
from .verdicts import Verdicts as Verdicts
from .verification import SETS_PER_BLOCK as SETS_PER_BLOCK
from .verification import verify as verify
from .verification import verify_chunk as verify_chunk
from .weights import open_rows as open_rows
from .weights import read_weights as read_weights
