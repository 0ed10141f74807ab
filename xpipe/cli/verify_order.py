"""`xpipe verify` in modes topk and argmax, from files to files: indexes, language models, softmax layers.

Holds no proofs and prints nothing itself: it returns the function that prints. Verdicts are written part by part beside
the output, so that a command that was killed goes on where it stopped.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from xpipe.argmaxability.explanation import Explanation, explain
from xpipe.argmaxability.layer_files import open_layer
from xpipe.argmaxability.lifted import LiftedLayer, prepare_rows
from xpipe.argmaxability.modes import make_question, sets_asked
from xpipe.argmaxability.options import NO_BIAS, Inputs, Mode, Radius
from xpipe.argmaxability.sets import check_sets, distinct_sets
from xpipe.argmaxability.summary import in_the_way, summarise, worst_sets
from xpipe.argmaxability.verdict_parts import PartedVerdicts, verify_in_parts
from xpipe.argmaxability.verdicts import UNARGMAXABLE, Verdicts, write_verdicts
from xpipe.cli.progress import Progress
from xpipe.cli.verify_command import check_options
from xpipe.cli.verify_tables import show_answers, show_conflicts, show_sentence, show_verdicts
from xpipe.errors import DataError
from xpipe.ground import files
from xpipe.ground.machine import usable_cores

SHOWN = 8  # queries and documents named


def verify_order(
    *,
    weights: str,
    key: str | None,
    bias: str | None,
    bias_key: str | None,
    sets: str | None,
    qrels: str | None,
    names: str | None,
    out: str,
    mode: Mode,
    inputs: Inputs,
    radius: Radius,
    eps: float,
    box: float,
    threads: int | None,
    n_explained: int,
    noun: str,
    progress: Progress,
    no_bias: bool = False,
    memory_limit: str | None = None,
    **reading: Any,
) -> tuple[Callable[[], None], bool]:
    """Verify sets of rows, and write the verdicts to `out`.

    Returns a function that prints the tables, and whether all sets are argmaxable. The arguments are the options of
    the command; noun: what a row is called.
    """
    check_options(out, no_bias, bias, bias_key)
    question = make_question(mode, inputs)
    stored = open_layer(weights, key, NO_BIAS if no_bias else bias, bias_key)
    layer = prepare_rows(stored.rows, stored.bias, every_label=not (sets or qrels))
    named = _read_ids(names, layer.n_labels)
    Y, queries = _read_sets(sets, qrels, layer.n_labels, named, mode, reading)
    indptr, indices = check_sets(Y, layer.n_labels)
    if len(indptr) == 1:
        raise DataError("there are no sets", where=sets or qrels or "", fix="give a file with at least one row")
    distinct, member = distinct_sets(Y, layer.n_labels)
    bar = progress.stage("verify", total=distinct.shape[0], unit="sets")
    started = time.perf_counter()
    parts = files.local(out) + ".parts" if files.is_local(out) else tempfile.mkdtemp()
    made = verify_in_parts(
        layer, distinct, parts, question, radius, eps, box, threads or usable_cores(), bar.advance, bar.advance,
        memory_limit,
    )  # fmt: skip
    seconds = time.perf_counter() - started
    bar.done()
    rows = made.bare.take(member)
    worst = worst_sets(rows, indptr, indices, n_explained)
    conflicts = [
        (row, int(indptr[row + 1] - indptr[row]), count, _explain(layer, made, int(member[row]), named, noun))
        for row, count in worst
    ]
    blocking = in_the_way(_certificates(made, member))
    _write(out, made, member)
    shutil.rmtree(parts)
    impossible = np.flatnonzero(rows.codes == UNARGMAXABLE)

    def show() -> None:
        """Print the tables."""
        show_sentence(stored.bias_told)
        show_verdicts(
            summarise(rows, np.diff(indptr)), eps, distinct.shape[0], seconds, out, exact=radius == "exact", noun=noun
        )
        show_conflicts(conflicts, len(impossible) - sum(count for _, count in worst), queries)
        show_answers(
            noun, len(rows), impossible, int(np.diff(indptr).max()), layer.rows.shape if inputs == "any" else None,
            [(_name(label, named, noun), count) for label, count in blocking[:SHOWN]], queries, named, indptr, indices,
        )  # fmt: skip

    return show, bool(rows.argmaxable.all())


def _name(label: int, named: Sequence[str] | None, noun: str) -> str:
    """How a row is called in tables."""
    return named[label] if named else f"{noun} {label}"


def _read_ids(names: str | None, count: int) -> list[str] | None:
    """Names of the rows: what stands before a tab where every line has one, else the whole line."""
    from xpipe.formats import read_names

    if names is None:
        return None
    found = read_names(names, count=count)
    return found.ids if found.ids is not None else found.names


def _read_sets(
    sets: str | None, qrels: str | None, n_labels: int, named: list[str] | None, mode: Mode, reading: dict[str, Any]
) -> tuple[Any, tuple[str, ...] | None]:
    """(one set per row, ids of the queries where there are any)."""
    from xpipe.formats import read_labels, read_qrels

    if qrels is not None:
        found = read_qrels(qrels, named if named is not None else n_labels)
        return found.answers, found.queries
    return (read_labels(sets, **reading) if sets else sets_asked(None, n_labels, mode)), None


def _explain(layer: LiftedLayer, made: PartedVerdicts, number: int, named: list[str] | None, noun: str) -> Explanation:
    """Why a distinct set is impossible."""
    verdicts, place = made.full(number)
    first = number - place
    own = sp.csr_matrix(made.sets[first : first + len(verdicts)])
    return explain(layer.rows, own, verdicts, place, layer.bias, named, noun=noun)


def _certificates(made: PartedVerdicts, member: np.ndarray) -> Sequence[tuple[np.ndarray, int]]:
    """(labels that an impossible distinct set cannot be ahead of, rows that have the set) of each such set."""
    times = np.bincount(member, minlength=len(made.bare))
    found = []
    for first, verdicts in made.parts():
        for place in np.flatnonzero(verdicts.codes == UNARGMAXABLE).tolist():
            labels, multipliers = verdicts.multipliers_of(place)
            own = made.sets.indices[made.sets.indptr[first + place] : made.sets.indptr[first + place + 1]]
            found.append((np.setdiff1d(labels[multipliers > 0], own), int(times[first + place])))
    return found


def _write(out: str, made: PartedVerdicts, member: np.ndarray) -> None:
    """The file of all rows; part by part where each row has a set of its own."""
    if np.array_equal(member, np.arange(len(made.bare))):
        made.write(out)
        return
    distinct = made.sets
    verdicts = Verdicts.concatenate([part for _, part in made.parts()])
    write_verdicts(out, verdicts, distinct.indptr.astype(np.int64), distinct.indices.astype(np.int64), member)
