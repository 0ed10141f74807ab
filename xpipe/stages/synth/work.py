"""Stand-ins at a worker: write pieces of their rows, and join these to files.

Holds no generator: that is `xpipe.synth`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xpipe.engine.messages import Finished, Unit, entry_of_file
from xpipe.ground import files
from xpipe.synth import assemble, plan_pieces, write_piece, write_side_files

SOURCE = "source"  # the folder of the files, and the artifact


@dataclass(frozen=True)
class Piece(Unit):
    """Piece `number` of `plan_pieces`; its size is in rows."""

    number: int


@dataclass(frozen=True)
class StandIn:
    """The dataset that is imitated, and the seed."""

    dataset: str
    seed: int


def write_rows(folder: str, unit: Piece, shared: StandIn) -> Finished[None]:
    """Write the rows of one piece as text without a header."""
    path = _piece_path(unit.number)
    write_piece(shared.dataset, shared.seed, plan_pieces(shared.dataset)[unit.number], files.join(folder, path))
    return Finished((entry_of_file(folder, path),), None)


def assemble_files(folder: str, unit: Unit, shared: StandIn) -> Finished[None]:
    """Write train.txt and test.txt from all pieces, names of labels and features, and the marker of a stand-in."""
    target = files.join(folder, SOURCE)
    paths = [files.join(folder, _piece_path(number)) for number in range(len(plan_pieces(shared.dataset)))]
    assemble(shared.dataset, shared.seed, paths, target)
    write_side_files(shared.dataset, shared.seed, target)
    names = [name for name in files.listing(target) if not name.startswith(".")]
    return Finished(tuple(entry_of_file(folder, files.join(SOURCE, name)) for name in names), None)


def _piece_path(number: int) -> str:
    """Where a piece is, below the folder of the stage."""
    return f"pieces/{number:05d}.txt"
