"""Memory that `verify` takes beyond the weights, and how many threads fit into a limit.

Holds no search. Sizes of blocks never depend on the limit, since they can change last bits: the number of threads does.
"""

from __future__ import annotations

from xpipe.argmaxability.block import ROOM as SEARCHES
from xpipe.argmaxability.block import SQUARES, inverses_together
from xpipe.argmaxability.lifted import CACHED, LiftedLayer
from xpipe.argmaxability.output_layer import OutputLayer
from xpipe.argmaxability.separation_block import SCORES
from xpipe.argmaxability.stored_rows import BLOCK
from xpipe.errors import ConfigError, ResourceError
from xpipe.ground.quantities import format_bytes, parse_bytes

COPIES = 8  # of the points of a block: as found, scaled, with tails, as columns
PARTS = 3  # blocks of rows held at once, as stored and in float64
VECTORS = 12  # numbers per label that a search holds: its scores, margins, marks


def threads_within(
    limit: str | int | None, layer: OutputLayer | LiftedLayer, sets_together: int, n_sets: int, threads: int
) -> int:
    """At most `threads`, as many as fit into the limit. Raises ConfigError, ResourceError where none fits."""
    if limit is None:
        return threads
    try:
        allowed = parse_bytes(limit)
    except ValueError as error:
        raise ConfigError(f"`memory_limit` {error}, got {limit!r}") from error
    shared, each = memory_needed(layer.n_labels, layer.d, sets_together, n_sets, isinstance(layer, LiftedLayer))
    if shared + each > allowed:
        raise ResourceError(
            f"`memory_limit` of {format_bytes(allowed)} is not enough",
            why=f"{n_sets:,} sets of {layer.n_labels:,} rows x {layer.d:,} inputs take {format_bytes(shared + each)} "
            "beyond the weights on one thread",
            fix="raise it, or ask about fewer sets at a time",
        )
    return min(threads, int((allowed - shared) // each))


def memory_needed(n: int, d: int, sets_together: int, n_sets: int, lifted: bool) -> tuple[int, int]:
    """(bytes that all threads share, bytes of one thread), beyond the weights as they are stored.

    n, d: rows and inputs. sets_together: in a block. lifted: modes topk and argmax.
    """
    copy = 16 * n * d if not lifted else 8 * n * d if n * d <= CACHED else 0  # float64, in mode sign twice
    verdicts = 4 * 8 * d * n_sets  # points and tails, by part and joined
    points = COPIES * 8 * d * min(sets_together, max(n_sets, 1))
    inverses = 8 * SQUARES * d * d * min(inverses_together(d), sets_together, n_sets)
    if not lifted:
        return copy + verdicts, inverses + points + 8 * VECTORS * n * min(sets_together, n_sets)
    return copy + verdicts, SEARCHES + 2 * SCORES + PARTS * 12 * BLOCK + points + inverses + 8 * VECTORS * n
