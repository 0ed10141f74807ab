"""Heads made by name, and heads from files.

Holds no file format of its own: safetensors, with the head's options in the metadata (`packing`).
"""

from __future__ import annotations

import inspect
import os
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from xpipe.errors import ConfigError, DataError
from xpipe.ground.close_match import did_you_mean
from xpipe.heads.head import KEY, Head
from xpipe.heads.packing import build, read_packed
from xpipe.heads.registry import find_head

Size = Annotated[int, Field(ge=1, lt=2**31)]


class HeadAbout(TypedDict):
    """What a file says of the head in it: the arguments of `make_head`."""

    layer: str
    in_dim: Size
    n_labels: Size
    options: dict[str, Any]


def make_head(layer: str, in_dim: int, n_labels: int, **options: Any) -> Head:
    """Make a new head by its name.

    Parameters
    ----------
    layer : str
        One of the names in `xpipe.heads.registry.HEADS`: bsl, dft, lml, quasibinary, softmax, binary.
    in_dim, n_labels : int
        Width of the inputs, number of labels.
    **options
        The other arguments of the head's class.

    Returns
    -------
    Head
        A `torch.nn.Module`, float [batch, in_dim] to logits [batch, n_labels].

    Raises
    ------
    ConfigError
        For an unknown name or option, a missing option, and a wrong value.

    Examples
    --------
    >>> from xpipe.heads import make_head
    >>> make_head("dft", in_dim=8, n_labels=20, k=2, slack=3).weights()[0].shape
    (20, 8)
    """
    kind = find_head(layer)
    takes = {name: option for name, option in inspect.signature(kind).parameters.items()
             if name not in ("in_dim", "n_labels")}  # fmt: skip
    for name in options:
        if name not in takes:
            listed = f"one of: {', '.join(takes)}" if takes else "it has no options"
            raise ConfigError(
                f"head {layer!r} has no option {name!r}", fix=did_you_mean(name, takes, shown=repr) or listed
            )
    missing = [name for name, option in takes.items() if option.default is option.empty and name not in options]
    if missing:
        raise ConfigError(f"head {layer!r} needs {' and '.join(f'`{name}`' for name in missing)}")
    return kind(in_dim=in_dim, n_labels=n_labels, **options)


def load_head(path: str) -> Head:
    """Load a head that `Head.save` wrote.

    Parameters
    ----------
    path : str
        A safetensors file or URL.

    Returns
    -------
    Head
        On the CPU, in evaluation mode, with the number type of the file.

    Raises
    ------
    DataError
        If the file is missing, damaged, or holds something else.

    Examples
    --------
    >>> import os, tempfile
    >>> from xpipe.heads import load_head, make_head
    >>> path = os.path.join(tempfile.mkdtemp(), "head.safetensors")
    >>> make_head("softmax", in_dim=8, n_labels=20, temperature=2.0).save(path)
    >>> load_head(path).options()
    {'temperature': 2.0}
    """
    path = os.fspath(path)
    state, about = read_packed(path, KEY, HeadAbout)

    def make() -> Head:
        return make_head(about["layer"], about["in_dim"], about["n_labels"], **about["options"])

    head = build(make, state, path)
    kinds = {state[name].dtype for name, _ in head.named_parameters()}
    if not all(kind.is_floating_point for kind in kinds):
        raise DataError("not a whole model", where=path, why="its weights are no floating-point numbers")
    if len(kinds) == 1:
        head.to(kinds.pop())
    head.load_state_dict(state, assign=True)  # keeps the number types of the file
    return head.eval()
