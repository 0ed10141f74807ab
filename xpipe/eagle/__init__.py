"""Which samples of a group own its labels: label embedding, assignment, and any method in one call.

Holds nothing of its own: public names are imported on first use, so that `import xpipe.eagle` is instant.
"""

from __future__ import annotations

import importlib
from typing import Any

PUBLIC = {
    "embed": "embedding",
    "CentredEmbedding": "embedding",
    "assign": "assignment",
    "embed_and_assign": "assignment",
    "impute": "imputation",
    "Imputed": "imputation",
}


def __getattr__(name: str) -> Any:
    if name in PUBLIC:
        return getattr(importlib.import_module(f"xpipe.eagle.{PUBLIC[name]}"), name)
    raise AttributeError(f"module 'xpipe.eagle' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *PUBLIC])
