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
from .ordering import order_labels as order_labels
from .output_layer import OutputLayer as OutputLayer
from .output_layer import prepare_layer as prepare_layer
from .sets import distinct_sets as distinct_sets
from .verdicts import Verdicts as Verdicts
from .verification import SETS_PER_BLOCK as SETS_PER_BLOCK
from .verification import verify as verify
from .verification import verify_chunk as verify_chunk
from .weights import read_weights as read_weights
