"""The public names of `xpipe.synth`; `__init__.py` imports each on first use."""

from .naming import feature_names as feature_names
from .naming import label_names as label_names
from .rows import planted_truth as planted_truth
from .rows import rows_of as rows_of
from .spec import MARKER as MARKER
from .spec import SENTENCE as SENTENCE
from .spec import SPECS as SPECS
from .spec import SYNTH_VERSION as SYNTH_VERSION
from .spec import Piece as Piece
from .spec import Spec as Spec
from .spec import plan_pieces as plan_pieces
from .spec import spec_of as spec_of
from .stand_in import assemble as assemble
from .stand_in import marker as marker
from .stand_in import piece_text as piece_text
from .stand_in import synthesize as synthesize
from .stand_in import write_piece as write_piece
from .stand_in import write_side_files as write_side_files
