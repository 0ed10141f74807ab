"""The heads that can be trained by name: one line per head in HEADS, from which everything else follows.

Holds no head and imports no PyTorch: sections of pipeline files are checked without it. To add a head, write its class
in a file of its own (see `head.Head`) and add one line to HEADS. Section `train` then knows its name and options, and
training, saving, loading, verification and evaluation find its class.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from xpipe.errors import ConfigError
from xpipe.ground.close_match import did_you_mean

if TYPE_CHECKING:
    from xpipe.heads.head import Head

DIM = 50  # of heads with the option `dim`, where a pipeline file gives none


class Option(NamedTuple):
    """One option that a pipeline file may give: its type, and its limits (ge, gt, le, lt)."""

    kind: type
    limits: Mapping[str, float]


class Limit(NamedTuple):
    """The largest value of an option for a number of labels, and the reason for it."""

    largest: Callable[[int], int]
    why: str


COUNT, POSITIVE, SHARE = Option(int, {"ge": 1}), Option(float, {"gt": 0}), Option(float, {"ge": 0, "lt": 1})


@dataclass(frozen=True)
class HeadKind:
    """Where the class of a head is, and what a pipeline file may say about it.

    Parameters
    ----------
    place : str
        "module:Class".
    options : mapping of str to Option
        The options that a pipeline file may give this head, besides those that all heads have. `Head.arguments` turns
        them into arguments of the class. A head with the option `dim` has a size: DIM where none is given.
    limit_of_k : Limit, optional
        The largest option `k`, where the number of labels limits it.
    mode : {"sign", "topk"}
        How `verify` must compare the head's scores: with 0, or with each other where a number added to all of them
        changes nothing.

    Examples
    --------
    >>> from xpipe.heads import HEADS
    >>> HEADS["dft"].place, list(HEADS["dft"].options)
    ('xpipe.heads.dft:DFT', ['dim', 'k'])
    """

    place: str
    options: Mapping[str, Option] = field(default_factory=dict)
    limit_of_k: Limit | None = None
    mode: Literal["sign", "topk"] = "sign"

    def load(self) -> type[Head]:
        """The class, imported now."""
        module, _, name = self.place.partition(":")
        found: type[Head] = getattr(importlib.import_module(module), name)
        return found


def largest_dft_k(n_labels: int) -> int:
    """The largest k of a DFT head, which has 2k + 1 independent columns of n_labels numbers."""
    return (n_labels - 1) // 2


DFT_LIMIT = Limit(largest_dft_k, "a DFT head has 2k + 1 independent columns, one number per label")

HEADS: dict[str, HeadKind] = {
    "bsl": HeadKind("xpipe.heads.bsl:BSL", {"dim": COUNT}),
    "dft": HeadKind("xpipe.heads.dft:DFT", {"dim": COUNT, "k": COUNT}, DFT_LIMIT),
    "lml": HeadKind("xpipe.heads.linear:LMLHead", {"k": COUNT}, mode="topk"),
    "quasibinary": HeadKind("xpipe.heads.linear:Quasibinary", {"momentum": SHARE}),
    "softmax": HeadKind("xpipe.heads.linear:Softmax", {"temperature": POSITIVE}, mode="topk"),
    "binary": HeadKind("xpipe.heads.linear:Binary"),
}


def find_head(layer: str) -> type[Head]:
    """The class of a head by its name in HEADS. Raises ConfigError for a name that is not there."""
    if layer not in HEADS:
        hint = did_you_mean(layer, HEADS, shown=repr) or f"one of: {', '.join(HEADS)}"
        raise ConfigError(f"there is no head {layer!r}", fix=hint)
    return HEADS[layer].load()
