"""Stand-in datasets on disk: the published shape of a real one, planted truth, the same bytes for the same seed.

Holds no arithmetic: `rows` makes the rows, `model` what they are drawn from.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from xpipe.errors import DataError
from xpipe.formats import catalog
from xpipe.ground import files
from xpipe.synth.naming import feature_names, label_names
from xpipe.synth.spec import MARKER, SENTENCE, SHAPE, SYNTH_VERSION, Piece, checked_seed, plan_pieces, spec_of

Path = str | os.PathLike[str]


def piece_text(name: str, seed: int, piece: Piece) -> bytes:
    r"""The rows of one piece as lines of XMC text, without a header.

    Parameters
    ----------
    name : str
        The name of the stand-in.
    seed : int
        Its seed.
    piece : Piece
        One of `plan_pieces(name)`.

    Returns
    -------
    bytes
        One line per row.

    Raises
    ------
    ConfigError
        There is no stand-in of this name, or the seed is not a whole number from 0 on.

    Examples
    --------
    >>> from xpipe.synth import piece_text, plan_pieces
    >>> piece_text("tiny", 0, plan_pieces("tiny")[-1]).count(b"\n")
    200
    """
    from xpipe.formats.row_text import format_rows
    from xpipe.synth.rows import rows_of

    return format_rows(*rows_of(name, seed, piece))


def write_piece(name: str, seed: int, piece: Piece, path: Path) -> dict[str, int]:
    """Write the lines of one piece to a file, complete or not at all.

    Parameters
    ----------
    name : str
        The name of the stand-in.
    seed : int
        Its seed.
    piece : Piece
        One of `plan_pieces(name)`.
    path : str or PathLike
        The file: a path or a URL.

    Returns
    -------
    dict
        `rows` and `bytes` that were written.

    Raises
    ------
    ConfigError
        There is no stand-in of this name, or the seed is not a whole number from 0 on.

    Examples
    --------
    >>> import os, tempfile
    >>> from xpipe.synth import plan_pieces, write_piece
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_piece("tiny", 0, plan_pieces("tiny")[-1], os.path.join(folder, "piece.txt"))["rows"]
    200
    """
    text = piece_text(name, seed, piece)
    files.write_bytes(os.fspath(path), text)
    return {"rows": piece.n_rows, "bytes": len(text)}


def marker(name: str, seed: int = 0) -> dict[str, Any]:
    """The content of SYNTHETIC.json, which says what a stand-in is.

    Parameters
    ----------
    name : str
        The name of the stand-in.
    seed : int
        Its seed.

    Returns
    -------
    dict
        A sentence for readers, the name, seed and version of the stand-in, and the statistics it imitates.

    Raises
    ------
    ConfigError
        There is no stand-in of this name, or the seed is not a whole number from 0 on.

    Examples
    --------
    >>> from xpipe.synth import marker
    >>> marker("tiny")["statistics"]["n_train"]
    600
    """
    spec = spec_of(name)
    return {
        "SYNTHETIC": SENTENCE,
        "name": spec.name,
        "seed": checked_seed(seed),
        "version": SYNTH_VERSION,
        "statistics": {key: value for key, value in asdict(spec).items() if key in SHAPE},
    }


def write_side_files(name: str, seed: int, folder: Path) -> None:
    """Write what belongs to a stand-in besides its rows: the marker first, then names and the planted truth.

    Parameters
    ----------
    name : str
        The name of the stand-in.
    seed : int
        Its seed.
    folder : str or PathLike
        Where SYNTHETIC.json, labels.txt, features.txt and truth.npz go.

    Raises
    ------
    ConfigError
        There is no stand-in of this name, or the seed is not a whole number from 0 on.

    Examples
    --------
    >>> import os, tempfile
    >>> from xpipe.synth import write_side_files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_side_files("tiny", 0, folder)
    ...     sorted(os.listdir(folder))
    ['SYNTHETIC.json', 'features.txt', 'labels.txt', 'truth.npz']
    """
    import scipy.sparse as sp

    from xpipe.synth.rows import planted_truth

    folder = os.fspath(folder)
    _write_marker(name, seed, folder)
    for file, names in (("labels.txt", label_names(name, seed)), ("features.txt", feature_names(name))):
        files.write_bytes(files.join(folder, file), ("\n".join(names) + "\n").encode())
    with files.open_write(files.join(folder, "truth.npz")) as stream:
        sp.save_npz(stream, planted_truth(name, seed), compressed=False)  # zlib versions differ in their bytes


def assemble(name: str, seed: int, pieces_paths: Sequence[Path], folder: Path) -> None:
    """Join the files of all pieces into train.txt, test.txt (and dev.txt) with headers.

    Parameters
    ----------
    name : str
        The name of the stand-in.
    seed : int
        Its seed.
    pieces_paths : sequence of str or PathLike
        The files that `write_piece` wrote, in the order of `plan_pieces(name)`.
    folder : str or PathLike
        Where the joined files go, and SYNTHETIC.json before them.

    Raises
    ------
    DataError
        The number of files is not the number of pieces.
    ConfigError
        There is no stand-in of this name, or the seed is not a whole number from 0 on.

    Examples
    --------
    >>> import os, tempfile
    >>> from xpipe.synth import assemble, plan_pieces, write_piece
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = [os.path.join(folder, f"piece-{number}") for number in range(4)]
    ...     for piece, path in zip(plan_pieces("tiny"), paths):
    ...         written = write_piece("tiny", 0, piece, path)
    ...     assemble("tiny", 0, paths, os.path.join(folder, "tiny"))
    ...     sorted(os.listdir(os.path.join(folder, "tiny")))
    ['SYNTHETIC.json', 'test.txt', 'train.txt']
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
    name: str, out: Path, seed: int = 0, progress: Callable[[int, int], None] | None = None
) -> dict[str, Any]:
    """Write a whole stand-in into a folder, with one piece in memory at a time.

    Parameters
    ----------
    name : str
        The name of the stand-in.
    out : str or PathLike
        The folder.
    seed : int
        From 0 on; another seed gives another stand-in.
    progress : callable, optional
        Called as `progress(rows_done, rows_in_all)` after every piece.

    Returns
    -------
    dict
        The content of SYNTHETIC.json, the statistics of the rows that were made (`found`), and the `bytes` written.

    Raises
    ------
    ConfigError
        There is no stand-in of this name, or the seed is not a whole number from 0 on.

    Examples
    --------
    >>> import tempfile
    >>> from xpipe.synth import synthesize
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     synthesize("tiny", folder)["found"]["splits"]["train"]["rows"]
    600
    """
    from xpipe.formats.row_text import format_rows
    from xpipe.synth.rows import rows_of

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
    """Write SYNTHETIC.json. It comes before any data, so that no data is ever there without it."""
    files.write_bytes(files.join(folder, MARKER), (json.dumps(marker(name, seed), indent=2) + "\n").encode())


def _header(name: str, split: str) -> bytes:
    """The first line of a split's file."""
    spec = spec_of(name)
    return f"{spec.rows(split)} {spec.n_features} {spec.n_labels}\n".encode()
