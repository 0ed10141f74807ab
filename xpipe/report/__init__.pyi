"""The public names of `xpipe.report`; `__init__.py` imports each on first use."""

from .reports import matrix_report as matrix_report
from .reports import run_report as run_report
