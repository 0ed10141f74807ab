"""Heads by name, and from files. Holds no format of its own: safetensors, with a head's options in the metadata."""

from __future__ import annotations

import difflib
import inspect
import json
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save

from xpipe import files
from xpipe.errors import ConfigError, DataError, XpipeError
from xpipe.heads.bsl import BSL
from xpipe.heads.dft import DFT
from xpipe.heads.head import Head
from xpipe.heads.linear import Binary, LMLHead, Quasibinary, Softmax

LAYERS: dict[str, type[Head]] = {kind.layer: kind for kind in (BSL, DFT, LMLHead, Quasibinary, Softmax, Binary)}
KEY = "xpipe.head"


def make_head(layer: str, in_dim: int, n_labels: int, **options: Any) -> Head:
    """A new head by the name of its layer: bsl, dft, lml, quasibinary, softmax or binary, with the options it takes.

    Raises ConfigError for a name or option that there is not, that is missing, or has a wrong value.
    """
    if layer not in LAYERS:
        raise ConfigError(f"there is no head {layer!r}", fix=_closest(layer, list(LAYERS)))
    kind = LAYERS[layer]
    takes = {name: option for name, option in inspect.signature(kind).parameters.items()
             if name not in ("in_dim", "n_labels")}  # fmt: skip
    for name in options:
        if name not in takes:
            raise ConfigError(f"head {layer!r} has no option {name!r}", fix=_closest(name, list(takes)))
    missing = [name for name, option in takes.items() if option.default is option.empty and name not in options]
    if missing:
        raise ConfigError(f"head {layer!r} needs {' and '.join(f'`{name}`' for name in missing)}")
    return kind(in_dim=in_dim, n_labels=n_labels, **options)


def _closest(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"one of: {', '.join(names)}" if names else "it has no options"


def to_bytes(head: Head) -> bytes:
    """What `load_head` reads: a safetensors file of the head's state, its options as JSON in the metadata."""
    about = {"layer": head.layer, "in_dim": head.in_dim, "n_labels": head.n_labels, "options": head.options()}
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in head.state_dict().items()}
    return save(state, {KEY: json.dumps(about)})


def load_head(path: str) -> Head:
    """The head that `save` wrote, on the CPU and in evaluation mode. Raises DataError for a damaged or foreign file."""
    if not files.exists(path):
        raise DataError("there is no such file", where=str(path))
    return from_bytes(files.read_bytes(path), str(path))


def from_bytes(content: bytes, where: str) -> Head:
    """The head in the bytes of a file; `where` names it in errors."""
    try:
        state = load(content)
        length = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + length]).get("__metadata__") or {}
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise DataError("this is not a readable safetensors file", where=where, why=str(error)) from error
    if KEY not in metadata:
        raise DataError(
            "this file holds no head", where=where, why="its metadata names none", fix="write it with head.save(path)"
        )
    try:
        about = json.loads(metadata[KEY])
        head = make_head(about["layer"], about["in_dim"], about["n_labels"], **about["options"])
        wrong = [name for name, tensor in head.state_dict().items()
                 if name not in state or state[name].shape != tensor.shape]  # fmt: skip
        foreign = [name for name in state if name not in head.state_dict()]
        if wrong or foreign:
            raise ValueError(f"tensors do not fit: {', '.join([*wrong, *foreign][:5])}")
    except (ValueError, KeyError, TypeError, XpipeError) as error:
        raise DataError(
            "the head in this file does not fit its options",
            where=where,
            why=str(error),
            fix="write it with head.save(path)",
        ) from error
    kinds = {state[name].dtype for name, _ in head.named_parameters()}
    if len(kinds) == 1:
        head.to(kinds.pop())
    head.load_state_dict(state, assign=True)  # the file's own number types
    return head.eval()
