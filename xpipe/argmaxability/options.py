"""What `verify` can be asked for, and its defaults.

Holds no arithmetic, and imports nothing heavy: sections of pipeline files take their defaults from here.
"""

from __future__ import annotations

from typing import Literal

Radius = Literal["bounds", "exact"]
Mode = Literal["sign", "topk", "argmax"]
Inputs = Literal["any", "nonnegative"]

EPS = 1e-8  # a set with a larger radius is argmaxable
BOX = 1e4  # inputs are looked for in [-BOX, BOX]^d
RADIUS: Radius = "bounds"
MODE: Mode = "sign"
INPUTS: Inputs = "any"
EXPLAINED = 5  # unargmaxable sets of a layer that are explained
NO_BIAS = "none"  # in place of a bias file: leave out the bias that lies beside the weights
