"""What a worker does with the verdicts of stage verify: one file per head, counts, radii, and the worst sets explained.

Knows nothing of Dask, and decides no verdicts: `work` has done that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from xpipe.argmaxability import OutputLayer, Verdicts, explain, sign_changes
from xpipe.argmaxability.block import one_blas_thread
from xpipe.argmaxability.options import MODE
from xpipe.argmaxability.summary import PERCENTILES, Line, summarise, worst_sets
from xpipe.argmaxability.verdicts import UNARGMAXABLE, read_verdicts, write_verdicts
from xpipe.engine.messages import Finished, Unit, entry_of_file, write_entry
from xpipe.formats.parquet_files import read_columns
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json
from xpipe.stages.emit.dataset_json import label_names
from xpipe.stages.emitted_paths import LABELS_FILE, VERIFICATION_FILE, VERIFICATION_FOLDER
from xpipe.stages.verify.messages import (
    ConflictingLabel,
    DftGuarantee,
    ExplainedSet,
    Explaining,
    HeadReport,
    HeadToJoin,
    LabelsOfHeads,
    LabelSource,
    Report,
    SizeClass,
    VerdictsFile,
)
from xpipe.stages.verify.work import Sets, read_output_layer, read_rows, read_sets

TOP = "verification"  # the folder of the artifact


def join_verdicts(folder: str, unit: HeadToJoin, shared: Explaining) -> Finished[HeadReport]:
    """Write verdicts.parquet of one head, one row per row of the split. Gives what the report says of the head."""
    head = unit.head
    sets, member = read_sets(folder)
    verdicts = Verdicts.concatenate([read_verdicts(files.join(folder, path)) for path in unit.parts])
    path = f"{VERIFICATION_FOLDER}/{head.name}/verdicts.parquet"
    write_verdicts(files.join(folder, TOP, path), verdicts, sets.indptr, sets.indices, member)
    entry = entry_of_file(folder, f"{TOP}/{path}")
    rows = verdicts.bare().take(member)
    *classes, whole = [_size_class(line) for line in summarise(rows, np.diff(sets.indptr)[member])]
    report = HeadReport(
        name=head.name,
        layer=head.layer,
        inputs=head.inputs,
        has_bias=head.has_bias,
        bias_told=head.bias_told,
        sets=whole.sets,
        argmaxable=whole.argmaxable,
        unargmaxable=int((rows.codes == UNARGMAXABLE).sum()),
        undecided=whole.undecided,
        one_argmaxable=whole.one_argmaxable,
        one_undecided=int((rows.one_argmaxable == "undecided").sum()),
        bounds_only=whole.bounds_only,
        radii=whole.radii,
        by_active_labels=tuple(classes),
        worst=_explained(folder, head.name, verdicts, shared),
        verdicts=VerdictsFile(path, entry.sha256),
        dft=None if head.dft_k is None else _guarantee(head.dft_k, read_sets(folder)),
        mode=head.mode,
    )
    return Finished((entry,), report)


def _size_class(line: Line) -> SizeClass:
    """A line of `summarise` as a message."""
    radii = line.radii and {f"p{percent}": value for percent, value in zip(PERCENTILES, line.radii, strict=True)}
    return SizeClass(**{**dataclasses.asdict(line), "radii": radii or None})


def _guarantee(k: int, sets: Sets) -> DftGuarantee:
    """How many rows a DFT head of this k can produce by construction."""
    changes = sign_changes(sets.distinct)[sets.member]
    return DftGuarantee(k, int((changes <= 2 * k).sum()), int(changes.max(initial=0)))


def _explained(folder: str, head: str, verdicts: Verdicts, shared: Explaining) -> tuple[ExplainedSet, ...]:
    """The sets to look at first, with the labels that exclude each other."""
    sets, member = read_sets(folder)
    by_row = sets[member]
    layer = read_output_layer(folder, head) if verdicts.mode == MODE else read_rows(folder, head, every_label=False)
    W = layer.W if isinstance(layer, OutputLayer) else layer.rows
    names, original = _labels(shared.labels, layer.n_labels)
    told = []
    for row, times in worst_sets(verdicts.bare().take(member), by_row.indptr, by_row.indices, shared.most):
        place = int(member[row])
        with one_blas_thread():  # with other numbers of threads, rounding could lead to another conflict
            conflict = explain(W, sets, verdicts, place, layer.bias, names)
        own = sets.indices[sets.indptr[place] : sets.indptr[place + 1]]
        conflicting = tuple(
            ConflictingLabel(int(label), int(original[label]), names[label], bool(positive))
            for label, positive in zip(conflict.labels, conflict.positive, strict=True)
        )
        labels = tuple(names[label] for label in own)
        told.append(ExplainedSet(row, times, labels, conflict.sentence(), conflict.minimal, conflicting))
    return tuple(told)


def _labels(source: LabelSource, n_labels: int) -> tuple[list[str], np.ndarray]:
    """(name, original number) of each row of the weights."""
    names: Sequence[str | None]
    if isinstance(source, LabelsOfHeads):
        columns = [("original_label", pa.int32()), ("name", pa.string())]
        table = read_columns(files.join(source.dataset, LABELS_FILE), columns)
        names, original = table["name"].to_pylist(), table["original_label"].to_numpy()
    else:
        names = (label_names(source.names) if source.names is not None else None) or [None] * n_labels
        original = np.arange(n_labels)
    named = [name if name is not None else f"label {number}" for name, number in zip(names, original, strict=True)]
    return named, original


def write_report(folder: str, unit: Unit, shared: Report) -> Finished[None]:
    """Write verification.json with all heads."""
    return Finished((write_entry(folder, f"{TOP}/{VERIFICATION_FILE}", dump_json(shared.to_json())),), None)
