"""Stand-ins for datasets whose files are missing: the published shape of a real one, with planted truth.

Holds nothing of its own: public names are imported on first use, so that `import xpipe.synth` is instant.
"""

from __future__ import annotations

from typing import Any

from xpipe.ground.lazy import public_name

PUBLIC = {
    "MARKER": "model",
    "SENTENCE": "model",
    "SPECS": "model",
    "SYNTH_VERSION": "model",
    "Piece": "model",
    "feature_names": "model",
    "label_names": "model",
    "plan_pieces": "model",
    "planted_truth": "model",
    "rows_of": "model",
    "spec_of": "model",
    "assemble": "stand_in",
    "marker": "stand_in",
    "piece_text": "stand_in",
    "synthesize": "stand_in",
    "write_piece": "stand_in",
    "write_side_files": "stand_in",
}


def __getattr__(name: str) -> Any:
    return public_name(__name__, PUBLIC, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *PUBLIC])
