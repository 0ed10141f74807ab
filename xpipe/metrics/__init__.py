"""How good ranked labels are: precision, recall, nDCG, F1, propensity-scored metrics, breakdowns, intervals.

Holds nothing of its own: public names are imported on first use, so that `import xpipe.metrics` is instant.
"""

from __future__ import annotations

import importlib
from typing import Any

PUBLIC = {
    "precision": "ranking",
    "recall": "ranking",
    "ndcg": "ranking",
    "f1": "ranking",
    "psp": "ranking",
    "psndcg": "ranking",
    "micro_f1": "ranking",
    "macro_f1": "ranking",
    "f1_above": "ranking",
    "coverage": "ranking",
    "measure": "measuring",
    "Measured": "measuring",
    "rank": "predictions",
    "Ranked": "predictions",
    "inverse_propensity": "propensity",
    "label_frequency": "propensity",
    "usual_propensity": "propensity",
    "USUAL": "propensity",
    "break_down": "breakdown",
    "Group": "breakdown",
    "intervals": "bootstrap",
    "evaluate": "evaluation",
}


def __getattr__(name: str) -> Any:
    if name in PUBLIC:
        return getattr(importlib.import_module(f"xpipe.metrics.{PUBLIC[name]}"), name)
    raise AttributeError(f"module 'xpipe.metrics' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *PUBLIC])
