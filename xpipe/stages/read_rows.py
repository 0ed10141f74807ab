"""Rows of input files, a part at a time: scanned, parsed by byte range, fitted together, written as parts.

Runs at workers; knows nothing of Dask. Parsing is `formats`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe import files
from xpipe.errors import DataError
from xpipe.formats.fitting import index_base_of, is_group_ids
from xpipe.formats.parts import slice_rows, take_rows, write_part
from xpipe.seeding import permutation
from xpipe.sparse import Triple, to_triple, without_columns
from xpipe.stages.matrices import part_path
from xpipe.store import dump_json

TEXT_KIND = {"xmc": "xmc", "svmlight": "svmlight", "split": "sparse"}


def entry_of(folder: str, path: str, content: bytes) -> dict:
    """Write a file of the artifact or scratch; gives its entry."""
    files.write_bytes(files.join(folder, path), content)
    return {"path": path, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def scan(folder: str, unit: dict, shared: dict) -> tuple[list[dict], dict]:
    """How many rows and columns a file has; for text also where each part begins (kept beside, as scan/*.npy)."""
    from xpipe.formats.text import open_text, row_offsets

    params, path, role = shared["params"], unit["path"], unit["role"]
    if role == "emitted":
        X, Y = _emitted(shared["folder"], unit["split"], shared["state"])
        return [], {"mode": "emitted", "rows": X.shape[0], "columns": X.shape[1], "labels": Y.shape[1]}
    if is_group_ids(role, path):
        matrix = _group_ids(path, shared["state"])
        return [], {"mode": "ids", "path": path, "rows": matrix.shape[0], "columns": matrix.shape[1]}
    if path.endswith((".npz", ".parquet")):
        matrix = _matrix(path, shared["state"])
        return [], {"mode": "matrix", "path": path, "rows": matrix.shape[0], "columns": matrix.shape[1]}
    kind = TEXT_KIND[shared["format"]] if role == "samples" else "sparse"
    entries = []
    sizes: dict[str, Any] = (
        {} if kind == "sparse" else {name: params[name] for name in ("n_features", "n_labels", "label_base")}
    )
    base = index_base_of(role, params["index_base"], params["label_base"])
    header = kind == "sparse" or (kind == "xmc" and params["header"])
    source = open_text(path, kind, header=header, index_base=base, **sizes)
    if source.compressed:
        plain, entry = _unpack(folder, source, f"unpacked/{unit['unit']}.txt")
        entries.append(entry)
        source = dataclasses.replace(source, path=plain, size=entry["bytes"], compressed=False, shown_as=path)
    offsets, n_rows = row_offsets(source, params["part_rows"])
    buffer = io.BytesIO()
    np.save(buffer, offsets, allow_pickle=False)
    entries.append(entry_of(folder, f"scan/{unit['unit']}.npy", buffer.getvalue()))
    facts = {"mode": "text", "source": dataclasses.asdict(source), "offsets": f"scan/{unit['unit']}.npy", "path": path}
    chosen = shared["splits"][unit["split"]].get("rows")
    if chosen and role == "samples":  # other files of the split have its rows only
        facts["mode"], facts["chosen"] = "chosen", files.join(shared["folder"], chosen)
        facts["file_rows"] = n_rows
        n_rows = len(_chosen(facts["chosen"], params["split_base"], n_rows, shared["state"]))
    return entries, {**facts, "rows": n_rows, "columns": source.n_features, "labels": source.n_labels}


def _unpack(folder: str, source: Any, target: str) -> tuple[str, dict]:
    """Unpack a gzip file, as far as its header is not contradicted."""
    from xpipe.formats.text import check_not_more, decompress

    def check_lines(n_lines: int) -> None:
        if source.kind != "svmlight":  # whose comments are no rows
            check_not_more(source, n_lines - (source.first_line - 1))

    plain = files.join(folder, target)
    with files.open_write(plain) as stream:
        decompress(source.path, stream, check_lines)
    return plain, {"path": target, "bytes": files.size(plain), "sha256": files.sha256(plain)}


class RoleRows(NamedTuple):
    """What one file gives for a part: matrices by artifact, the file's row numbers kept, and what was rejected."""

    matrices: dict[str, Triple]
    samples: np.ndarray
    rejects: list[dict]


def read_part(folder: str, unit: dict, shared: dict) -> tuple[list[dict], dict]:
    """Read one part from every file of its split, keep the rows all of them have, and write the artifacts' parts."""
    split = unit["split"]
    roles = [name.split("-", 1)[1] for name in shared["sources"] if name.startswith(split + "-")]
    found = [read_role(folder, unit, shared, role) for role in roles if role != "group_labels"]
    kept = found[0].samples
    for other in found[1:]:
        kept = np.intersect1d(kept, other.samples, assume_unique=True)
    grouped = f"{split}-group_labels" in shared["sources"]
    names = {"labels": "held_out_labels"} if shared["shape"]["n_groups"] is not None else {}
    entries, counts = [], {"rejected": unit["rows"] - len(kept)}
    for piece in found:
        everything = len(kept) == len(piece.samples)
        for name, whole in piece.matrices.items():
            if name == "labels" and grouped:
                continue
            triple = whole if everything else take_rows(whole, np.searchsorted(piece.samples, kept))
            if name == "labels" and shared["params"]["hide_labels"]:
                triple = without_columns(triple, hidden_labels(shared))
            path = part_path(names.get(name, name), split, unit["index"])
            facts = write_part(files.join(folder, path), kept, triple)
            entries.append({"path": path, "split": split, **facts})
            counts[name] = facts["entries"]
            counts[f"rows_without_{name}"] = int((np.diff(triple.indptr) == 0).sum())
    rejects = sorted((reject for piece in found for reject in piece.rejects), key=lambda r: (r["row"], r["file"]))
    if rejects:
        entries.append(entry_of(folder, f"rejected/{unit['unit']}.json", dump_json(rejects)))
    return entries, counts


def hidden_labels(shared: dict) -> np.ndarray:
    """The labels that `data.hide_labels` takes out. Rows that had no others become rows without labels."""
    n_labels = shared["shape"]["n_labels"]
    return permutation(n_labels, 0, "read", "hidden labels")[: round(shared["params"]["hide_labels"] * n_labels)]


def read_role(folder: str, unit: dict, shared: dict, role: str) -> RoleRows:
    """The rows of a part from one file."""
    facts = shared["sources"][f"{unit['split']}-{role}"]
    start, stop = unit["start"], unit["start"] + unit["rows"]
    samples = np.arange(start, stop)
    if facts["mode"] == "emitted":
        X, Y = _emitted(shared["folder"], unit["split"], shared["state"])
        rows = {"features": _rows(X, start, stop), "labels": _rows(Y, start, stop)}
        return RoleRows(rows, samples, [])
    if facts["mode"] in ("matrix", "ids"):
        load = _matrix if facts["mode"] == "matrix" else _group_ids
        matrix = load(facts["path"], shared["state"])
        name = "membership" if role == "group_ids" else role
        return RoleRows({name: _rows(matrix, start, stop)}, samples, [])
    if facts["mode"] == "chosen":
        return _read_chosen(facts, start, stop, shared["params"], shared["state"])
    offsets = _offsets(files.join(folder, facts["offsets"]), shared["state"])
    return _read_range(facts, offsets, unit, role, shared["params"]["on_bad_row"])


def _read_range(facts: dict, offsets: np.ndarray, unit: dict, role: str, on_bad_row: str) -> RoleRows:
    from xpipe.formats.source import TextSource
    from xpipe.formats.text import parse_range

    begin, end = int(offsets[unit["index"]]), int(offsets[unit["index"] + 1 if unit["rows"] else -1])
    rows = parse_range(TextSource(**facts["source"]), begin, end, unit["start"], on_bad_row=on_bad_row)
    matrices = {"features" if role == "samples" else role: rows.features}
    if rows.labels is not None:
        matrices["labels"] = rows.labels
    return RoleRows(matrices, rows.samples, _listed(facts["path"], rows.rejects))


def _read_chosen(facts: dict, start: int, stop: int, params: dict, state: str) -> RoleRows:
    """Rows named by an index split file; the data file is parsed once a worker."""
    rows = _whole_text(tuple(sorted(facts["source"].items())), params["on_bad_row"], state)
    chosen = _chosen(facts["chosen"], params["split_base"], facts["file_rows"], state)[start:stop]
    place = np.searchsorted(rows.samples, chosen)
    there = (place < len(rows.samples)) & (rows.samples[np.minimum(place, len(rows.samples) - 1)] == chosen)
    matrices = {"features": take_rows(rows.features, place[there]), "labels": take_rows(rows.labels, place[there])}
    wanted = set(chosen.tolist())
    rejects = [reject for reject in rows.rejects if reject.row in wanted]
    return RoleRows(matrices, np.arange(start, stop)[there], _listed(facts["path"], rejects))


def _listed(path: str, rejects: list) -> list[dict]:
    return [{"file": files.basename(path), **reject._asdict()} for reject in rejects]


def _rows(matrix: sp.csr_matrix, start: int, stop: int) -> Triple:
    return slice_rows(to_triple(matrix), start, stop)


# Formats without byte ranges are loaded once a worker; two at a time cover features and labels. Workers may outlive a
# run, and files change under their names: `state` tells what was loaded before from what is there now.


@lru_cache(maxsize=2)
def _matrix(path: str, state: str) -> sp.csr_matrix:
    from xpipe.formats import read_sparse

    return read_sparse(path)


@lru_cache(maxsize=1)
def _emitted(folder: str, split: str, state: str) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    from xpipe.formats.parquet import read_split

    return read_split(folder, split)


@lru_cache(maxsize=1)
def _group_ids(path: str, state: str) -> sp.csr_matrix:
    from xpipe.formats import read_group_ids

    return read_group_ids(path)


@lru_cache(maxsize=1)
def _whole_text(source: tuple, on_bad_row: str, state: str) -> Any:
    from xpipe.formats.source import TextSource
    from xpipe.formats.text import parse_range

    return parse_range(TextSource(**dict(source)), on_bad_row=on_bad_row)


@lru_cache(maxsize=2)
def _chosen(path: str, base: int | None, n_rows: int, state: str) -> np.ndarray:
    from xpipe.formats import read_index_split

    if base is None:
        raise DataError(
            "data.split_base must be given",
            where=path,
            why="whether it counts from 0 or 1 is never guessed",
            fix="1 for XMC repository files",
        )
    return read_index_split(path, base=base, n_rows=n_rows)


@lru_cache(maxsize=8)
def _offsets(path: str, state: str) -> np.ndarray:
    return np.load(io.BytesIO(files.read_bytes(path)), allow_pickle=False)
