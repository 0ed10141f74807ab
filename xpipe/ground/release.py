"""The release of xpipe, and the folder of the package. Holds nothing else."""

from __future__ import annotations

from pathlib import Path

__version__ = "0.1.0"
PACKAGE = Path(__file__).parent.parent
