"""How good ranked labels are: precision, recall, nDCG, F1, propensity-scored metrics, calibration, intervals.

Holds nothing of its own: public names are imported on first use, so that `import xpipe.metrics` is instant.
"""

from __future__ import annotations

from typing import Any

from xpipe.ground.lazy import public_name

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
    "assess": "calibration",
    "ece": "calibration",
    "reliability": "calibration",
    "Reliability": "calibration",
    "max_confidence": "calibration",
    "mean_max_confidence": "calibration",
    "auroc": "calibration",
    "brier": "calibration",
    "break_down": "breakdown",
    "Group": "breakdown",
    "intervals": "bootstrap",
    "evaluate": "evaluation",
}


def __getattr__(name: str) -> Any:
    return public_name(__name__, PUBLIC, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *PUBLIC])
