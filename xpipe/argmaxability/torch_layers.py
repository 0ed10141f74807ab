"""Output layers as PyTorch has them: a Linear, a head, a Parameter on any device, a state dict.

Holds no import of PyTorch: its objects are known by what they can do. Holds no files (`layer_files`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from xpipe.argmaxability.layer_files import find_bias
from xpipe.argmaxability.stored_rows import StoredRows
from xpipe.argmaxability.weights import LONGEST_NAME, list_arrays
from xpipe.errors import ConfigError, DataError, printable
from xpipe.ground.close_match import did_you_mean

TWICE = "leave `bias` out: that of the layer is used"


class GivenLayer(NamedTuple):
    """Weights and bias as numpy arrays or `StoredRows`; arrays share the memory of tensors on the CPU."""

    W: Any
    bias: Any


def given_layer(W: Any, bias: Any = None, key: str | None = None) -> GivenLayer:
    """The numbers of an output layer in any form. What is no object of PyTorch stays as it is.

    Parameters
    ----------
    W : array_like, StoredRows, torch.Tensor, torch.nn.Linear, Head, or mapping of str to tensors
        A module gives its `weight` and `bias`, a head of `xpipe.heads` its `weights()`. Of a state dict, the array
        `key` and the bias beside it are taken.
    bias : array_like or torch.Tensor, optional
        For layers without a bias of their own.
    key : str, optional
        The name of the weights in a state dict; not needed where it has one matrix.

    Returns
    -------
    GivenLayer

    Raises
    ------
    ConfigError
        If a state dict has no such array, or several; if a bias is given twice.
    DataError
        If a module has no matrix of weights.
    """
    if isinstance(W, Mapping):
        W, own = _from_state(W, key)
    elif key is not None:
        raise ConfigError(f"`key` names an array of a state dict, but W is {type(W).__name__}", fix="leave `key` out")
    elif hasattr(W, "state_dict"):
        W, own = _from_module(W)
    else:
        own = None
    if own is not None and bias is not None:
        raise ConfigError("the layer has a bias, and another is given", fix=TWICE)
    return GivenLayer(_numbers(W), _numbers(own if bias is None else bias, whole=True))


def as_array(W: Any) -> Any:
    """Weights for mode sign, which takes arrays: rows of bfloat16 are written out, anything else stays as it is."""
    return W.take(slice(None)) if isinstance(W, StoredRows) and W.bfloat else W


def _from_module(module: Any) -> tuple[Any, Any]:
    """(weights, bias or None) of a module."""
    if callable(getattr(module, "weights", None)):  # a head: its scores may come from several parameters
        found: tuple[Any, Any] = module.weights()
        return found
    weight = getattr(module, "weight", None)
    if weight is None or getattr(weight, "ndim", 0) != 2:
        raise DataError(
            f"{type(module).__name__} has no matrix of weights",
            why="an output layer is a torch.nn.Linear, or another module with `weight` [n_labels, d]",
            fix="give the layer itself: model.lm_head; or verify(model.state_dict(), key=...)",
        )
    return weight, getattr(module, "bias", None)


def _from_state(state: Mapping[str, Any], key: str | None) -> tuple[Any, Any]:
    """(weights, bias or None) of a state dict."""
    shapes: dict[str, tuple[int, ...]] = {name: tuple(np.shape(array)) for name, array in state.items()}
    matrices: dict[str, tuple[int, ...]] = {name: shape for name, shape in shapes.items() if len(shape) == 2}
    if key is None:
        if len(matrices) != 1:
            raise ConfigError(
                f"the state dict holds {len(matrices)} matrices", why=list_arrays(matrices or shapes),
                fix='say which are the weights of the output layer: key="lm_head.weight"',
            )  # fmt: skip
        key = next(iter(matrices))
    if key not in shapes:
        hint = did_you_mean(key, shapes, shown=lambda name: repr(printable(name, LONGEST_NAME)))
        raise ConfigError(
            f"no array {printable(key, LONGEST_NAME)!r} in the state dict", why=f"it holds {list_arrays(shapes)}",
            fix=hint or "one of these names",
        )  # fmt: skip
    if len(shapes[key]) != 2:
        raise DataError(f"{printable(key, LONGEST_NAME)} has the shape {shapes[key]}", fix="weights are a matrix")
    name, _ = find_bias(key, shapes, where="the state dict", fix="give the weights and the bias: verify(W, Y, bias)")
    return state[key], None if name is None else state[name]


def _numbers(given: Any, whole: bool = False) -> Any:
    """A tensor as a numpy array that shares its memory on the CPU; anything else as it is.

    numpy has no bfloat16: its bits become a `StoredRows`, or with `whole` a float32 array.
    """
    if not (hasattr(given, "detach") and hasattr(given, "cpu")):
        return given
    tensor = given.detach().cpu()
    kind = str(tensor.dtype).removeprefix("torch.")
    if kind == "bfloat16" and not whole and tensor.ndim == 2:
        import torch

        return StoredRows(tensor.contiguous().view(torch.uint16).numpy(), bfloat=True)
    return tensor.float().numpy() if kind.startswith(("bfloat16", "float8")) else tensor.numpy()
