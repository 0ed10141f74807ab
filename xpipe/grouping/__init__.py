"""Groups of samples: who shares labels with whom.

Holds nothing of its own: public names are imported on first use, so that `import xpipe.grouping` is instant.
"""

from __future__ import annotations

from typing import Any

from xpipe.ground.lazy import public_name

PUBLIC = {
    "random_groups": "groups",
    "kmeans_groups": "groups",
    "given_groups": "groups",
    "membership_of_ids": "groups",
    "binarised": "groups",
    "spread_labels": "groups",
    "likeness": "groups",
    "balanced_partition": "clustering",
}


def __getattr__(name: str) -> Any:
    return public_name(__name__, PUBLIC, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *PUBLIC])
