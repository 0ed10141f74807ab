"""Which label sets an output layer can and cannot predict: verdicts, certificates, reasons, DFT layers, label order.

Holds nothing of its own: the names that `__init__.pyi` lists are imported on first use.

    verdicts = verify(W, Y)                      one call: distinct sets, blocks on threads, certificates checked
    check(W, Y, verdicts)                        which verdicts their certificates prove
    explain(W, Y, verdicts, row)                 a smallest conflict of labels

What a distributed stage needs, each a pure function of its arguments:

    layer = prepare_layer(W, bias)               checked weights and what all sets share; made once per process
    sets, member = distinct_sets(Y, len(W))      each set once, and which of them every row of Y is
    verdicts = verify_chunk(layer, sets[a:b], radius, eps=..., box=...)
    Verdicts.concatenate(parts).take(member)     verdicts of the rows of Y, the same bytes however the sets were cut

The sets of one block (SETS_PER_BLOCK of them) are solved together, and nothing passes from one block to another. So `a`
and `b` must be multiples of SETS_PER_BLOCK, or `b` the number of sets.
"""

from __future__ import annotations

from xpipe.ground.lazy import public_names

OLD_NAMES = {"Head": "OutputLayer", "state_head": "prepare_layer", "UNIT": "SETS_PER_BLOCK"}

__getattr__, __dir__, __all__ = public_names(__name__, __file__, OLD_NAMES)
