"""The public names of `xpipe.engine`; `__init__.py` imports each on first use."""

from .decide import check as check
from .decide import plan as plan
from .execute import run as run
