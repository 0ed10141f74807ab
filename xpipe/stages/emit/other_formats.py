"""The emitted rows in formats of other trainers: XMC text, npz with the names of PECOS, svmlight. Runs at a worker.

Holds no whole split in memory: rows are streamed, part by part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from xpipe.engine.messages import FileEntry, Finished, Unit, entry_of_file, write_entry
from xpipe.formats.file_names import SHORT_SPLITS
from xpipe.formats.npz import write_npz
from xpipe.formats.row_text import format_blocks
from xpipe.formats.svmlight import NO_ROWS, empty_row
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json
from xpipe.ground.sparse import Triple
from xpipe.ground.sparse_rows import with_ones
from xpipe.stages.emit.dataset_json import label_names
from xpipe.stages.emit.facts import EmitFacts
from xpipe.stages.emit.label_survey import kept_labels
from xpipe.stages.emit.work import emitted_rows
from xpipe.stages.emitted_paths import dataset_path
from xpipe.stages.matrices import open_matrix

SVMLIGHT_BASE = 1  # LIBSVM's own tools refuse a feature 0


@dataclass(frozen=True)
class FormatFiles(Unit):
    """The files of one format and split. split: None for the files beside the rows."""

    format: str
    split: str | None


def write_format(folder: str, unit: FormatFiles, shared: EmitFacts) -> Finished[None]:
    """Write the files of a unit."""
    if unit.split is None:
        return Finished(tuple(_write_beside(folder, unit.format, shared)), None)
    paths = _WRITERS[unit.format](folder, unit.split, shared)
    return Finished(tuple(entry_of_file(folder, path) for path in paths), None)


def _parts(folder: str, split: str, shared: EmitFacts) -> Iterator[tuple[Triple, Triple]]:
    """(features, labels) of the rows of each stored part; all label scores are 1."""
    starts = open_matrix(shared.inputs.features, split).starts
    for start, stop in pairwise(starts):
        rows = emitted_rows(folder, shared.inputs, split, np.arange(start, stop))
        yield rows.features, with_ones(rows.labels)


def _write_xmc(folder: str, split: str, shared: EmitFacts) -> list[str]:
    """SPLIT.txt; gives its path."""
    path = dataset_path("xmc", f"{split}.txt")
    survey = shared.survey
    with files.open_write(files.join(folder, path)) as stream:
        stream.write(f"{survey.rows[split]} {shared.inputs.n_features} {survey.labels_kept}\n".encode())
        for features, labels in _parts(folder, split, shared):
            for block in format_blocks(features, labels):
                stream.write(block)
    return [path]


def _write_svmlight(folder: str, split: str, shared: EmitFacts) -> list[str]:
    """SPLIT.svm; gives its path."""
    path = dataset_path("svmlight", f"{split}.svm")
    with files.open_write(files.join(folder, path)) as stream:
        if not shared.survey.rows[split]:
            stream.write(NO_ROWS)
        for features, labels in _parts(folder, split, shared):
            # a sample without anything gets an explicit zero: readers of svmlight skip blank lines and would shift rows
            for block in format_blocks(features, labels, index_base=SVMLIGHT_BASE, empty_row=empty_row(SVMLIGHT_BASE)):
                stream.write(block)
    return [path]


def _write_npz(folder: str, split: str, shared: EmitFacts) -> list[str]:
    """X.SPLIT.npz and Y.SPLIT.npz; gives their paths."""
    paths = [dataset_path("npz", f"{matrix}.{SHORT_SPLITS[split]}.npz") for matrix in ("X", "Y")]
    rows = shared.survey.rows[split]

    def features() -> Iterator[Triple]:
        return (part[0] for part in _parts(folder, split, shared))

    def labels() -> Iterator[Triple]:
        return (part[1] for part in _parts(folder, split, shared))

    write_npz(files.join(folder, paths[0]), (rows, shared.inputs.n_features), features)
    write_npz(files.join(folder, paths[1]), (rows, shared.survey.labels_kept), labels)
    return paths


def _write_beside(folder: str, name: str, shared: EmitFacts) -> Iterator[FileEntry]:
    """labels.txt (names, or original numbers); where the data is a stand-in, also the marker that says so."""
    original, _ = kept_labels(folder)
    names = label_names(shared.inputs.names)
    lines = [names[label] if names else f"label {label}" for label in original]
    yield write_entry(folder, dataset_path(name, "labels.txt"), "".join(f"{line}\n" for line in lines).encode())
    if shared.inputs.synthetic:
        marker = {"SYNTHETIC": "rows of a generated stand-in, not of a real dataset"}
        yield write_entry(folder, dataset_path(name, "SYNTHETIC.json"), dump_json(marker))


_WRITERS = {"xmc": _write_xmc, "npz": _write_npz, "svmlight": _write_svmlight}
