"""Which label sets an output layer can and cannot predict: verdicts with certificates, reasons, DFT heads, label order.

Holds nothing of its own: public names are imported on first use, so that `import xpipe.argmaxability` is instant.

    verdicts = verify(W, Y)                      one call: distinct sets, chunks on threads, certificates checked
    check(W, Y, verdicts)                        which verdicts their certificates prove
    explain(W, Y, verdicts, row)                 a smallest conflict of labels

What a distributed stage needs, each a pure function of its arguments:

    head = state_head(W, bias)                   checked weights and what every set shares; made once a process
    sets, member = distinct_sets(Y, len(W))      each set once, and which of them every row of Y is
    verdicts = verify_chunk(head, sets[a:b], radius, eps=..., box=...)   a and b multiples of UNIT, or b the end
    Verdicts.concatenate(parts).take(member)     verdicts of the rows of Y, the same bytes however the sets were cut

The sets of one UNIT are solved together, and nothing passes from one unit to another.
"""

from __future__ import annotations

from typing import Any

from xpipe.ground.lazy import public_name

PUBLIC = {
    "verify": "verification",
    "verify_chunk": "verification",
    "UNIT": "verification",
    "check": "certificate",
    "Verdicts": "verdicts",
    "Head": "head",
    "state_head": "head",
    "distinct_sets": "head",
    "explain": "explanation",
    "Explanation": "explanation",
    "dft_matrix": "dft",
    "find_dft_k": "dft",
    "sign_changes": "dft",
    "dft_argmaxable": "dft",
    "dft_certificate": "dft",
    "DftCertificate": "dft",
    "order_labels": "ordering",
    "count_argmaxable": "counting",
    "log10_share": "counting",
    "read_weights": "weights",
}


def __getattr__(name: str) -> Any:
    return public_name(__name__, PUBLIC, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *PUBLIC])
