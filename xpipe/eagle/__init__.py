"""Which samples of a group own its labels: label embedding, assignment, and any method in one call.

Holds nothing of its own: public names are imported on first use, so that `import xpipe.eagle` is instant.
"""

from __future__ import annotations

from typing import Any

from xpipe.ground.lazy import public_name

PUBLIC = {
    "embed": "embedding",
    "CentredEmbedding": "embedding",
    "assign": "assignment",
    "embed_and_assign": "assignment",
    "impute": "imputation",
    "Imputed": "imputation",
}


def __getattr__(name: str) -> Any:
    return public_name(__name__, PUBLIC, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *PUBLIC])
