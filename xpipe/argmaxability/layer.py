"""One output layer from files: its weights, and the bias that goes with them or is said not to.

Holds no reading of formats (`weights`). A bias that lies beside the weights is part of the layer: without it, what is
proved is proved of another layer. So it is used where its name and its length fit, and always named.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

import numpy as np

from xpipe.argmaxability.head import check_weights
from xpipe.argmaxability.weights import LONGEST_NAME, array_shapes, choose_array, list_arrays, read_weights
from xpipe.errors import ConfigError, printable

NONE = "none"  # in place of a bias file: leave the bias out
WEIGHT_WORD = re.compile(r"weights?|kernel|(?<![A-Za-z])w(?![A-Za-z])", re.IGNORECASE)
BIAS_WORDS = ("bias", "biases", "b")
LAST_WORD = re.compile(r"[^./_]+\Z")
CHOOSE = "say which: --bias-key NAME (in a pipeline: verify.bias_key), or --no-bias (verify.bias: none)"


class Layer(NamedTuple):
    """Weights (n_labels x d) and bias (or None), float64; told: a sentence on the bias, for people."""

    W: np.ndarray
    bias: np.ndarray | None
    told: str


def read_layer(path: str, key: str | None = None, bias: str | None = None, bias_key: str | None = None) -> Layer:
    """The layer with weights `key` of a file. bias: a file of its own, or "none"; bias_key: its name there or beside W.

    Where neither is given, the bias is looked for beside the weights. Raises ConfigError where several fit and for
    options that exclude each other, DataError for files and numbers that are wrong.
    """
    if bias == NONE and bias_key is not None:
        raise ConfigError("a bias is both named and left out", fix="give --bias-key or --no-bias, not both")
    W = read_weights(path, key)
    found, told = None, ""
    if bias == NONE:
        name, _ = _beside(path, key, W) if W.ndim == 2 else (None, "")
        told = "bias: left out" + (f", although {_shown(name)} fits" if name else "")
    elif bias is not None or bias_key is not None:
        found = read_weights(bias or path, bias_key)
        told = f"bias: {_shown(bias_key or os.path.basename(bias or path))} ({found.size:,} numbers)"
    elif W.ndim == 2:
        name, told = _beside(path, key, W)
        if name is not None:
            found = read_weights(path, name)
            told = f"bias: {_shown(name)} ({found.size:,} numbers)"
    return Layer(*check_weights(W, found), told)


def _shown(name: str | None) -> str:
    return printable(name or "", LONGEST_NAME)


def _beside(path: str, key: str | None, W: np.ndarray) -> tuple[str | None, str]:
    """(name of the bias that lies beside the weights or None, a sentence on one that does not fit or "")."""
    shapes = array_shapes(path)
    if not shapes:
        return None, ""
    own = choose_array(path, key, shapes)
    siblings = [name for name in shapes if name != own and name.lower() in bias_names(own)]
    fitting = [name for name in siblings if shapes[name] == (len(W),)]
    if not siblings:
        fitting = _other_biases(own, shapes, len(W))
    if len(fitting) > 1:
        raise ConfigError(
            f"several arrays may be the bias of {_shown(own)}",
            where=path,
            why=list_arrays({name: shapes[name] for name in fitting}),
            fix=CHOOSE,
        )
    if fitting:
        return fitting[0], ""
    if not siblings:
        return None, ""
    turned = any(shapes[name] == (W.shape[1],) for name in siblings)
    told = f"bias: none used; {list_arrays({name: shapes[name] for name in siblings})} does not fit {len(W):,} labels"
    return None, told + ("; are the weights transposed?" if turned else "")


def _other_biases(own: str, shapes: dict[str, tuple[int, ...]], n_labels: int) -> list[str]:
    """Arrays called a bias and as long as the labels are many, that are not the bias of another array of the file."""
    taken = {bias for name, shape in shapes.items() if name != own and len(shape) > 1 for bias in bias_names(name)}
    return [
        name
        for name, shape in shapes.items()
        if "bias" in name.lower() and shape == (n_labels,) and name != own and name.lower() not in taken
    ]


def bias_names(weights: str) -> set[str]:
    """Names, in lower case, that the bias of weights of this name has by convention: `2.weight` -> `2.bias`, `2.b`."""
    names = {weights[: match.start()] + bias for match in [LAST_WORD.search(weights)] if match for bias in BIAS_WORDS}
    for match in WEIGHT_WORD.finditer(weights):
        names |= {weights[: match.start()] + bias + weights[match.end() :] for bias in BIAS_WORDS}
    return {name.lower() for name in names} - {weights.lower()}
