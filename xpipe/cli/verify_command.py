"""`xpipe verify`, from files to files: reads, verifies, and writes verdicts.

Holds no proofs and prints nothing itself: it returns the function that prints.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from xpipe.argmaxability.explanation import explain
from xpipe.argmaxability.layer_files import read_layer
from xpipe.argmaxability.options import INPUTS, NO_BIAS, Inputs, Radius
from xpipe.argmaxability.sets import check_sets, distinct_sets
from xpipe.argmaxability.summary import summarise, worst_sets
from xpipe.argmaxability.verdicts import UNARGMAXABLE, write_verdicts
from xpipe.argmaxability.verification import verify
from xpipe.cli.progress import Progress
from xpipe.cli.verify_tables import show_conflicts, show_sentence, show_verdicts
from xpipe.errors import ConfigError, DataError


def verify_files(
    *,
    weights: str,
    key: str | None,
    bias: str | None,
    bias_key: str | None,
    sets: str,
    names: str | None,
    out: str,
    radius: Radius,
    eps: float,
    box: float,
    threads: int | None,
    n_explained: int,
    progress: Progress,
    no_bias: bool = False,
    inputs: Inputs = INPUTS,
    memory_limit: str | None = None,
    **reading: Any,
) -> tuple[Callable[[], None], bool]:
    """Verify label sets, and write the verdicts to `out`.

    Returns a function that prints the tables, and whether all sets are argmaxable. The arguments are the options of
    the command.
    """
    from xpipe.formats import read_labels, read_names

    check_options(out, no_bias, bias, bias_key)
    W, shift, told = read_layer(weights, key, NO_BIAS if no_bias else bias, bias_key)
    named = read_names(names, count=len(W)).names if names else None
    Y = read_labels(sets, **reading)
    indptr, indices = check_sets(Y, len(W))
    if len(indptr) == 1:
        raise DataError("there are no label sets", where=sets, fix="give a file with at least one row")
    n_distinct = distinct_sets(Y, len(W))[0].shape[0]
    bar = progress.stage("verify", total=n_distinct, unit="sets")
    started = time.perf_counter()
    verdicts = verify(
        W, Y, shift, inputs=inputs, box=box, eps=eps, radius=radius, threads=threads, progress=bar.advance,
        memory_limit=memory_limit,
    )  # fmt: skip
    seconds = time.perf_counter() - started
    bar.done()
    write_verdicts(out, verdicts, indptr, indices)
    worst = worst_sets(verdicts, indptr, indices, n_explained)
    conflicts = [
        (row, int(indptr[row + 1] - indptr[row]), count, explain(W, Y, verdicts, row, shift, named))
        for row, count in worst
    ]
    n_unargmaxable = int((verdicts.codes == UNARGMAXABLE).sum())

    def show() -> None:
        """Print the tables."""
        show_sentence(told)
        show_verdicts(summarise(verdicts, np.diff(indptr)), eps, n_distinct, seconds, out, exact=radius == "exact")
        show_conflicts(conflicts, n_unargmaxable - sum(count for _, count in worst))

    return show, bool(verdicts.argmaxable.all())


def check_options(out: str, no_bias: bool, bias: str | None, bias_key: str | None) -> None:
    """Raise ConfigError for options that cannot be right, before anything is read."""
    if not out.endswith(".parquet"):
        raise ConfigError(f"verdicts are written as Parquet, not to {out!r}", fix="--out verdicts.parquet")
    if no_bias and (bias or bias_key):
        raise ConfigError("a bias is both given and left out", fix="leave out --no-bias, or --bias and --bias-key")
