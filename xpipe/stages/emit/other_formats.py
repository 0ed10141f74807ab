"""The emitted rows as files of other trainers: XMC text, npz with the PECOS names, svmlight. Streams, at a worker."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from xpipe.formats.npz import write_npz
from xpipe.formats.svmlight import NO_ROWS, empty_row
from xpipe.formats.xmc_text import format_blocks
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json
from xpipe.ground.sparse import Triple
from xpipe.stages.emit.dataset_json import label_names
from xpipe.stages.emit.work import emitted_rows, kept_labels
from xpipe.stages.matrices import open_matrix

SHORT = {"train": "trn", "test": "tst", "dev": "dev"}  # PECOS names
SVMLIGHT_BASE = 1  # LIBSVM's own tools refuse a feature 0


def write_file(folder: str, unit: dict, shared: dict) -> list[str]:
    """Write the files of one format and split (None: what stands beside them); gives their paths below `folder`."""
    top = f"datasets/{unit['format']}"
    if unit["split"] is None:
        return _write_beside(folder, top, shared)
    return _WRITERS[unit["format"]](folder, top, unit["split"], shared)


def _parts(folder: str, split: str, shared: dict) -> Iterator[tuple[Triple, Triple]]:
    starts = open_matrix(shared["features"], split).starts
    for start, stop in pairwise(starts):
        _, features, labels = emitted_rows(folder, shared, split, np.arange(start, stop))
        yield features, labels._replace(values=np.ones(len(labels.indices), dtype=np.float32))


def _write_xmc(folder: str, top: str, split: str, shared: dict) -> list[str]:
    path = f"{top}/{split}.txt"
    with files.open_write(files.join(folder, path)) as stream:
        facts = shared["facts"]
        stream.write(f"{facts['rows'][split]} {shared['n_features']} {facts['labels_kept']}\n".encode())
        for features, labels in _parts(folder, split, shared):
            for block in format_blocks(features, labels):
                stream.write(block)
    return [path]


def _write_svmlight(folder: str, top: str, split: str, shared: dict) -> list[str]:
    path = f"{top}/{split}.svm"
    with files.open_write(files.join(folder, path)) as stream:
        if not shared["facts"]["rows"][split]:
            stream.write(NO_ROWS)
        for features, labels in _parts(folder, split, shared):
            # a sample without anything gets an explicit zero: readers of svmlight skip blank lines and would shift rows
            for block in format_blocks(features, labels, index_base=SVMLIGHT_BASE, empty_row=empty_row(SVMLIGHT_BASE)):
                stream.write(block)
    return [path]


def _write_npz(folder: str, top: str, split: str, shared: dict) -> list[str]:
    rows, n_labels = shared["facts"]["rows"][split], shared["facts"]["labels_kept"]
    paths = [f"{top}/X.{SHORT[split]}.npz", f"{top}/Y.{SHORT[split]}.npz"]

    def features() -> Iterator[Triple]:
        return (part[0] for part in _parts(folder, split, shared))

    def labels() -> Iterator[Triple]:
        return (part[1] for part in _parts(folder, split, shared))

    write_npz(files.join(folder, paths[0]), (rows, shared["n_features"]), features)
    write_npz(files.join(folder, paths[1]), (rows, n_labels), labels)
    return paths


def _write_beside(folder: str, top: str, shared: dict) -> list[str]:
    """labels.txt (names, or original numbers), and the marker of stand-ins, which stays with every copy."""
    original, _ = kept_labels(folder)
    names = label_names(shared)
    lines = [names[label] if names else f"label {label}" for label in original]
    content = {"labels.txt": "".join(f"{line}\n" for line in lines).encode()}
    if shared["synthetic"]:
        content["SYNTHETIC.json"] = dump_json({"SYNTHETIC": "rows of a generated stand-in, not of a real dataset"})
    for name, text in content.items():
        files.write_bytes(files.join(folder, top, name), text)
    return [f"{top}/{name}" for name in content]


_WRITERS = {"xmc": _write_xmc, "npz": _write_npz, "svmlight": _write_svmlight}
