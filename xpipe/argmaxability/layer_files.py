"""One output layer from files: its weights, and the bias that belongs to them.

Holds no reading of formats (`weights`). A bias that lies beside the weights is part of the layer: without it,
proofs would be about another layer. So a bias whose name and length fit is used, and the user is always told.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

import numpy as np

from xpipe.argmaxability.options import NO_BIAS
from xpipe.argmaxability.output_layer import check_weights
from xpipe.argmaxability.stored_rows import StoredRows, check_bias
from xpipe.argmaxability.weights import (
    INDEX,
    LONGEST_NAME,
    array_shapes,
    choose_array,
    list_arrays,
    model_file,
    open_rows,
    read_weights,
    shard_map,
    shard_of,
)
from xpipe.errors import ConfigError, printable

WEIGHT_WORD = re.compile(r"weights?|kernel|(?<![A-Za-z])w(?![A-Za-z])", re.IGNORECASE)
BIAS_WORDS = ("bias", "biases", "b")
LAST_WORD = re.compile(r"[^./_]+\Z")
CHOOSE = "say which: --bias-key NAME (in a pipeline: verify.bias_key), or --no-bias (verify.bias: none)"


class StoredLayer(NamedTuple):
    """Weights float64 [n_labels, d], bias float64 [n_labels] or None, and a sentence about the bias, maybe empty."""

    W: np.ndarray
    bias: np.ndarray | None
    bias_told: str


def read_layer(path: str, key: str | None = None, bias: str | None = None, bias_key: str | None = None) -> StoredLayer:
    """The layer whose weights are array `key` of a file.

    bias: a file of its own, or "none" for no bias. bias_key: the name of the bias in that file, or else beside the
    weights. Where neither is given, the bias is looked for beside the weights. Raises ConfigError where several arrays
    may be the bias and for options that exclude each other, DataError for wrong files and numbers.
    """
    if bias == NO_BIAS and bias_key is not None:
        raise ConfigError("a bias is both named and left out", fix="give --bias-key or --no-bias, not both")
    W = read_weights(path, key)
    found, told = None, ""
    if bias == NO_BIAS:
        name, _ = _beside(path, key) if W.ndim == 2 else (None, "")
        told = "bias: left out" + (f", although {_shown(name)} fits" if name else "")
    elif bias is not None or bias_key is not None:
        found = read_weights(bias or path, bias_key)
        told = f"bias: {_shown(bias_key or os.path.basename(bias or path))} ({found.size:,} numbers)"
    elif W.ndim == 2:
        name, told = _beside(path, key)
        if name is not None:
            found = read_weights(path, name)
            told = f"bias: {_shown(name)} ({found.size:,} numbers)"
    return StoredLayer(*check_weights(W, found), told)


class StoredIndex(NamedTuple):
    """Rows as they are stored, bias float64 [n_labels] or None, and a sentence about the bias, maybe empty."""

    rows: StoredRows
    bias: np.ndarray | None
    bias_told: str


def open_layer(path: str, key: str | None = None, bias: str | None = None, bias_key: str | None = None) -> StoredIndex:
    """`read_layer` for modes topk and argmax: rows are mapped from the file, not copied.

    Besides the files of `read_layer`, the index of a model in several files may be given, or the folder of a model. A
    bias in another of its files is found, too.
    """
    if bias == NO_BIAS and bias_key is not None:
        raise ConfigError("a bias is both named and left out", fix="give --bias-key or --no-bias, not both")
    path = model_file(path)
    rows = open_rows(path, key)
    index, path = path, path if not path.endswith(INDEX) else shard_of(path, key)
    found, told = None, ""
    if bias == NO_BIAS:
        name, _ = _beside(path, key)
        told = "bias: left out" + (f", although {_shown(name)} fits" if name else "")
    elif bias is not None or bias_key is not None:
        found = read_weights(bias or path, bias_key)
        told = f"bias: {_shown(bias_key or os.path.basename(bias or path))} ({found.size:,} numbers)"
    else:
        name, told = _beside(path, key)
        if name is None and not told and index.endswith(INDEX):
            path, name = _in_another_file(index, path, key, len(rows))
        if name is not None:
            found = read_weights(path, name)
            told = f"bias: {_shown(name)} ({found.size:,} numbers)"
    return StoredIndex(rows, check_bias(found, len(rows)), told)


def files_of_layer(path: str, key: str | None) -> list[str]:
    """The files that a layer is read from: the path itself, or some files of a model in several files."""
    path = model_file(path)
    if not path.endswith(INDEX):
        return [path]
    biases = [name for name in shard_map(path) if name.lower() in bias_names(key or "")]
    return sorted({shard_of(path, name) for name in (key, *biases)})


def _shown(name: str | None) -> str:
    """A name as it may be printed."""
    return printable(name or "", LONGEST_NAME)


def _beside(path: str, key: str | None) -> tuple[str | None, str]:
    """(name of the bias beside the weights, or None; a sentence about one that does not fit, or "")."""
    shapes = array_shapes(path)
    if not shapes:
        return None, ""
    return find_bias(choose_array(path, key, shapes), shapes, where=path, fix=CHOOSE)


def find_bias(own: str, shapes: dict[str, tuple[int, ...]], *, where: str, fix: str) -> tuple[str | None, str]:
    """(name of the bias of the weights `own`, or None; a sentence about one that does not fit, or "").

    Raises ConfigError where several arrays may be the bias; `where` and `fix` are parts of its message.
    """
    n_labels, n_inputs = shapes[own]
    siblings = [name for name in shapes if name != own and name.lower() in bias_names(own)]
    fitting = [name for name in siblings if shapes[name] == (n_labels,)]
    if not siblings:
        fitting = _other_biases(own, shapes, n_labels)
    if len(fitting) > 1:
        raise ConfigError(
            f"several arrays may be the bias of {_shown(own)}",
            where=where,
            why=list_arrays({name: shapes[name] for name in fitting}),
            fix=fix,
        )
    if fitting:
        return fitting[0], ""
    if not siblings:
        return None, ""
    turned = any(shapes[name] == (n_inputs,) for name in siblings)
    told = f"bias: none used; {list_arrays({name: shapes[name] for name in siblings})} does not fit {n_labels:,} labels"
    return None, told + ("; are the weights transposed?" if turned else "")


def _in_another_file(index: str, path: str, key: str | None, n_labels: int) -> tuple[str, str | None]:
    """(file, name) of the bias in another file of a model; (path, None) where there is none of this length."""
    for name in shard_map(index):
        if name.lower() in bias_names(key or ""):
            other = shard_of(index, name)
            if array_shapes(other).get(name) == (n_labels,):
                return other, name
    return path, None


def _other_biases(own: str, shapes: dict[str, tuple[int, ...]], n_labels: int) -> list[str]:
    """Arrays called bias with one number per label, that are not the bias of another array of the file."""
    taken = {bias for name, shape in shapes.items() if name != own and len(shape) > 1 for bias in bias_names(name)}
    return [
        name
        for name, shape in shapes.items()
        if "bias" in name.lower() and shape == (n_labels,) and name != own and name.lower() not in taken
    ]


def bias_names(weights: str) -> set[str]:
    """Conventional names, in lower case, of the bias of weights with this name: `2.weight` -> `2.bias`, `2.b`."""
    names = {weights[: match.start()] + bias for match in [LAST_WORD.search(weights)] if match for bias in BIAS_WORDS}
    for match in WEIGHT_WORD.finditer(weights):
        names |= {weights[: match.start()] + bias + weights[match.end() :] for bias in BIAS_WORDS}
    return {name.lower() for name in names} - {weights.lower()}
