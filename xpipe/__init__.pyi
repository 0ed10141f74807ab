"""The rooms of xpipe; `__init__.py` imports each on first use."""

from . import argmaxability as argmaxability
from . import cli as cli
from . import config as config
from . import eagle as eagle
from . import engine as engine
from . import errors as errors
from . import formats as formats
from . import ground as ground
from . import grouping as grouping
from . import heads as heads
from . import integrations as integrations
from . import metrics as metrics
from . import report as report
from . import stages as stages
from . import synth as synth
from . import text as text
from . import trees as trees
from .stages.predict.model import load as load

__version__: str
