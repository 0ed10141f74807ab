"""Stand-in datasets on disk: the published shape of a real one, planted truth, the same bytes for the same seed.

Holds no arithmetic: `synth_model` makes the rows.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict

from xpipe.errors import DataError
from xpipe.formats import catalog
from xpipe.ground import files
from xpipe.synth.model import (
    MARKER,
    SENTENCE,
    SHAPE,
    SPECS,
    SYNTH_VERSION,
    Piece,
    checked_seed,
    feature_names,
    label_names,
    plan_pieces,
    planted_truth,
    rows_of,
    spec_of,
)

__all__ = [
    "MARKER",
    "SENTENCE",
    "SPECS",
    "SYNTH_VERSION",
    "Piece",
    "assemble",
    "feature_names",
    "label_names",
    "marker",
    "piece_text",
    "plan_pieces",
    "planted_truth",
    "rows_of",
    "spec_of",
    "synthesize",
    "write_piece",
    "write_side_files",
]


def piece_text(name: str, seed: int, piece: Piece) -> bytes:
    """The XMC text lines of a piece, without a header."""
    from xpipe.formats.xmc_text import format_rows

    return format_rows(*rows_of(name, seed, piece))


def write_piece(name: str, seed: int, piece: Piece, path: str | os.PathLike) -> dict:
    """Write the lines of a piece, whole or not at all; returns its rows and bytes."""
    text = piece_text(name, seed, piece)
    files.write_bytes(os.fspath(path), text)
    return {"rows": piece.n_rows, "bytes": len(text)}


def marker(name: str, seed: int = 0) -> dict:
    """Content of SYNTHETIC.json: what this stand-in is."""
    spec = spec_of(name)
    return {
        "SYNTHETIC": SENTENCE,
        "name": spec.name,
        "seed": checked_seed(seed),
        "version": SYNTH_VERSION,
        "statistics": {key: value for key, value in asdict(spec).items() if key in SHAPE},
    }


def write_side_files(name: str, seed: int, folder: str | os.PathLike) -> None:
    """Write SYNTHETIC.json first, so that no data is ever there without it; then names and the planted truth."""
    import scipy.sparse as sp

    folder = os.fspath(folder)
    _write_marker(name, seed, folder)
    for file, names in (("labels.txt", label_names(name, seed)), ("features.txt", feature_names(name))):
        files.write_bytes(files.join(folder, file), ("\n".join(names) + "\n").encode())
    with files.open_write(files.join(folder, "truth.npz")) as stream:
        sp.save_npz(stream, planted_truth(name, seed), compressed=False)  # zlib versions differ in their bytes


def assemble(name: str, seed: int, pieces_paths: Sequence[str | os.PathLike], folder: str | os.PathLike) -> None:
    """Join the files of all pieces, in the order of `plan_pieces`, into train.txt, test.txt (and dev.txt) with headers.

    Raises DataError where the number of files is not the number of pieces.
    """
    pieces, folder = plan_pieces(name), os.fspath(folder)
    if len(pieces_paths) != len(pieces):
        raise DataError(
            f"{name} has {len(pieces)} pieces, {len(pieces_paths)} files were given",
            fix="give the files in the order of plan_pieces(name)",
        )
    _write_marker(name, seed, folder)
    for split in dict.fromkeys(piece.split for piece in pieces):
        with files.open_write(files.join(folder, f"{split}.txt")) as out:
            out.write(_header(name, split))
            for piece, path in zip(pieces, pieces_paths, strict=True):
                if piece.split == split:
                    with files.open_read(os.fspath(path)) as stream:
                        shutil.copyfileobj(stream, out, files.BLOCK)


def synthesize(
    name: str, out: str | os.PathLike, seed: int = 0, progress: Callable[[int, int], None] | None = None
) -> dict:
    """Write the whole stand-in into folder `out`, one piece in memory at a time; returns its marker with what was made.

    `progress(rows_done, rows_in_all)` is called after every piece. Raises ConfigError for an unknown name.
    """
    from xpipe.formats.xmc_text import format_rows

    spec, pieces, out = spec_of(name), plan_pieces(name), os.fspath(out)
    write_side_files(name, seed, out)
    counter = catalog.StatisticsCounter(spec.n_features, spec.n_labels)
    done, total, n_bytes = 0, sum(piece.n_rows for piece in pieces), 0
    for split in dict.fromkeys(piece.split for piece in pieces):
        with files.open_write(files.join(out, f"{split}.txt")) as stream:
            stream.write(_header(name, split))
            for piece in (piece for piece in pieces if piece.split == split):
                features, labels = rows_of(name, seed, piece)
                counter.add(split, features, labels)
                n_bytes += stream.write(format_rows(features, labels))
                done += piece.n_rows
                if progress is not None:
                    progress(done, total)
    return {**marker(name, seed), "found": counter.result().to_dict(), "bytes": n_bytes}


def _write_marker(name: str, seed: int, folder: str) -> None:
    files.write_bytes(files.join(folder, MARKER), (json.dumps(marker(name, seed), indent=2) + "\n").encode())


def _header(name: str, split: str) -> bytes:
    spec = spec_of(name)
    return f"{spec.rows(split)} {spec.n_features} {spec.n_labels}\n".encode()
