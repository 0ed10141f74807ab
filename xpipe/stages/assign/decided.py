"""What the choosing task of stage assign has decided, as files: written once, read by every chunk of labels."""

from __future__ import annotations

import numpy as np

from xpipe.eagle import plan
from xpipe.eagle.whitening import Whitener
from xpipe.engine.messages import FileEntry
from xpipe.stages.arrays import read_array, write_array
from xpipe.stages.assign.messages import Settled

WHITENER = tuple(f"whitener/{name}.npy" for name in ("scale", "features", "directions", "of_mean", "width"))
NEAR = "near/groups.npy"


def write_decision(folder: str, decision: plan.Decision) -> tuple[FileEntry, ...]:
    """Write the whitener and near groups for the chunks."""
    whitener = decision.whitener
    assert whitener is not None  # only methods that choose come here
    kept = (whitener.scale, whitener.features, whitener.directions, whitener.of_mean, np.array([whitener.width]))
    written = [write_array(folder, path, array) for path, array in zip(WHITENER, kept, strict=True)]
    if decision.near is not None:
        written.append(write_array(folder, NEAR, decision.near))
    return tuple(written)


def decision_of(folder: str, shared: Settled) -> plan.Decision:
    """What was decided, with the arrays that the deciding task wrote."""
    whitener = near = None
    if shared.method == "discriminative":
        scale, features, directions, of_mean, width = (read_array(folder, path) for path in WHITENER)
        whitener = Whitener(scale, features, directions, of_mean, float(width[0]))
        near = read_array(folder, NEAR) if NEAR in shared.arrays else None
    return plan.Decision(shared.assignment.options, shared.method, shared.choice, whitener, near)
