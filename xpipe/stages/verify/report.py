"""What the verdicts of a split come to, at a worker: one file a head, counts, radii, and the worst sets explained.

Knows nothing of Dask and judges nothing: the verdicts are there already.
"""

from __future__ import annotations

import dataclasses
import io

import numpy as np
import pyarrow.parquet as pq

from xpipe.argmaxability import Verdicts, explain, sign_changes
from xpipe.argmaxability.summary import PERCENTILES, Line, summarise, worst_sets
from xpipe.argmaxability.unit import one_blas_thread
from xpipe.argmaxability.verdicts import UNARGMAXABLE, read_verdicts, write_verdicts
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json
from xpipe.stages.emit.dataset_json import label_names
from xpipe.stages.read.work import entry_of
from xpipe.stages.verify.work import file_entry, read_head, read_sets


def join(folder: str, unit: dict, shared: dict) -> tuple[list[dict], dict]:
    """verdicts.parquet of one head, a row a row of the split; gives everything the report says of it."""
    head = shared["heads"][unit["head"]]
    sets, member = read_sets(folder)
    parts = [read_verdicts(files.join(folder, path)) for path in unit["parts"]]
    verdicts = Verdicts.concatenate(parts)
    path = f"verification/verification/{head['name']}/verdicts.parquet"
    write_verdicts(files.join(folder, path), verdicts, sets.indptr, sets.indices, member)
    entry = file_entry(folder, path)
    rows = verdicts.bare().take(member)
    *classes, whole = [_in_words(line) for line in summarise(rows, np.diff(sets.indptr)[member])]
    found = {
        "name": head["name"],
        "layer": head["layer"],
        "inputs": head["d"],
        "has_bias": head["has_bias"],
        "bias_told": head["bias_told"],
        **{name: value for name, value in whole.items() if name != "labels"},
        "unargmaxable": int((rows.codes == UNARGMAXABLE).sum()),
        "one_undecided": int((rows.one_argmaxable == "undecided").sum()),
        "by_active_labels": classes,
        "worst": _explained(folder, verdicts, shared, head),
        "verdicts": {"path": f"verification/{head['name']}/verdicts.parquet", "sha256": entry["sha256"]},
    }
    if "k" in head:
        changes = sign_changes(sets)[member]
        found["dft"] = {
            "k": head["k"],
            "guaranteed": int((changes <= 2 * head["k"]).sum()),
            "most_sign_changes": int(changes.max(initial=0)),
        }
    return [entry], found


def _in_words(line: Line) -> dict:
    radii = line.radii and {f"p{percent}": value for percent, value in zip(PERCENTILES, line.radii, strict=True)}
    return {**dataclasses.asdict(line), "radii": radii}


def _explained(folder: str, verdicts: Verdicts, shared: dict, head: dict) -> list[dict]:
    """The sets to look at first, with the labels that exclude each other."""
    sets, member = read_sets(folder)
    indptr, rows = sets.indptr, verdicts.bare().take(member)
    by_row = sets[member]
    stated = read_head(folder, head)
    names, original = _labels(shared, stated.n_labels)
    told = []
    for row, times in worst_sets(rows, by_row.indptr, by_row.indices, shared["params"]["explain"]):
        place = int(member[row])
        with one_blas_thread():  # or another number of cores could find another conflict
            conflict = explain(stated.W, sets, verdicts, place, stated.bias, names)
        own = sets.indices[indptr[place] : indptr[place + 1]]
        told.append(
            {
                "row": row,
                "rows": times,
                "labels": [names[label] for label in own],
                "sentence": conflict.sentence(),
                "minimal": conflict.minimal,
                "conflict": [
                    {"label": int(label), "original_label": int(original[label]), "name": names[label],
                     "in_the_set": bool(positive)}
                    for label, positive in zip(conflict.labels, conflict.positive, strict=True)
                ],
            }
        )  # fmt: skip
    return told


def _labels(shared: dict, n_labels: int) -> tuple[list[str], np.ndarray]:
    """(name, original number) of each row of the weights."""
    if shared["labels"] is None:
        content = files.read_bytes(files.join(shared["dataset"], "labels.parquet"))
        table = pq.read_table(io.BytesIO(content), columns=["original_label", "name"])
        names, original = table["name"].to_pylist(), table["original_label"].to_numpy()
    else:
        names = (label_names(shared) if shared["names"] else None) or [None] * n_labels
        original = np.arange(n_labels)
    named = [name if name is not None else f"label {number}" for name, number in zip(names, original, strict=True)]
    return named, original


def report(folder: str, shared: dict) -> tuple[list[dict], dict]:
    """verification.json with all heads; gives what a run's table and results.json say."""
    params, facts = shared["params"], shared["facts"]
    about = {name: params[name] for name in ("split", "radius", "eps", "box")}
    numbers = "as read" if shared["labels"] else "heads/labels.parquet"
    content = {**about, **facts, "label_numbers": numbers, "heads": shared["joined"]}
    entry = entry_of(folder, "verification/verification.json", dump_json(content))
    left_out = ("by_active_labels", "worst", "verdicts")
    heads = [{name: value for name, value in head.items() if name not in left_out} for head in shared["joined"]]
    return [entry], {**about, **facts, "heads": heads}
