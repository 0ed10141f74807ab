"""Heads by name, and from files. Holds no format of its own: safetensors, with a head's options in the metadata."""

from __future__ import annotations

import difflib
import inspect
import os
from typing import Annotated, Any

import torch
from pydantic import Field
from typing_extensions import TypedDict

from xpipe.errors import ConfigError, DataError
from xpipe.heads.bsl import BSL
from xpipe.heads.dft import DFT
from xpipe.heads.head import KEY, Head
from xpipe.heads.linear import Binary, LMLHead, Quasibinary, Softmax
from xpipe.heads.packing import build, pack, read_packed, unpack

LAYERS: dict[str, type[Head]] = {kind.layer: kind for kind in (BSL, DFT, LMLHead, Quasibinary, Softmax, Binary)}
Size = Annotated[int, Field(ge=1, lt=2**31)]


class HeadAbout(TypedDict):
    """What a file says of the head in it: what `make_head` takes."""

    layer: str
    in_dim: Size
    n_labels: Size
    options: dict[str, Any]


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
    return pack(head.state_dict(), head.about(), KEY)


def load_head(path: str) -> Head:
    """The head that `save` wrote, on the CPU and in evaluation mode. Raises DataError for a damaged or foreign file."""
    path = os.fspath(path)
    return _made(*read_packed(path, KEY, HeadAbout), path)


def from_bytes(content: bytes, where: str) -> Head:
    """The head in the bytes of a file; `where` names it in errors."""
    return _made(*unpack(content, KEY, HeadAbout, where), where)


def _made(state: dict[str, torch.Tensor], about: HeadAbout, where: str) -> Head:
    def make() -> Head:
        return make_head(about["layer"], about["in_dim"], about["n_labels"], **about["options"])

    head = build(make, state, where)
    kinds = {state[name].dtype for name, _ in head.named_parameters()}
    if not all(kind.is_floating_point for kind in kinds):
        raise DataError("not a whole model", where=where, why="its weights are no floating-point numbers")
    if len(kinds) == 1:
        head.to(kinds.pop())
    head.load_state_dict(state, assign=True)  # the file's own number types
    return head.eval()
