"""The file of the model, at workers: each chunk of units writes its own bytes of it; what is left is joined at the end.

Holds no format (`trees.storing`, `ground.npz_layout`). A store behind a URL takes no pieces of files: there, one task
joins the whole forest and writes it from the first byte to the last. Both ways give the same bytes.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from xpipe.engine.messages import Finished, Unit, entry_of_file
from xpipe.ground import files
from xpipe.ground.calibration_map import CalibrationMap
from xpipe.ground.npy_header import ArrayHeader
from xpipe.ground.npz_layout import Place, bytes_of, directory_of, header_of, lay_out, member_crc
from xpipe.stages.emitted_paths import MODELS_FOLDER
from xpipe.stages.train_trees.held_out import predicted
from xpipe.stages.train_trees.messages import (
    Chunk,
    ChunkToPlace,
    Learnt,
    ModelFacts,
    Placed,
    Placing,
    Room,
    ToJoin,
    Trained,
)
from xpipe.stages.train_trees.planning import read_plans
from xpipe.stages.train_trees.stored_units import read_units, sizes_of_units
from xpipe.trees import LabelTree, hold_out, make_forest
from xpipe.trees._beam_numba import Weights
from xpipe.trees.calibration import fit_to
from xpipe.trees.forest import join_units
from xpipe.trees.storing import arrays_of_calibration, arrays_of_plans, headers_of_weights

MODEL_FILE = f"tree_model/{MODELS_FOLDER}/tree.npz"
UNFINISHED = "unfinished/tree.npz"  # beside the model: a run folder may have a link to a model of before
POINTERS = ("feature_ptr", "entry_ptr", "child_ptr")  # arrays with one number more than there are things


def takes_pieces(folder: str) -> bool:
    """Whether a file of the store can be written piece by piece; URLs stand for whole files only."""
    return files.is_local(folder)


def add_up(learnt: Sequence[Learnt]) -> list[Learnt]:
    """What the chunks before each chunk have learnt together; the last one: what all have learnt."""

    def add(one: Learnt, other: Learnt) -> Learnt:
        return Learnt(
            one.units + other.units, one.features + other.features, one.weights + other.weights,
            one.biases + other.biases,
        )  # fmt: skip

    return list(accumulate(learnt, add, initial=Learnt(0, 0, 0, 0)))


def chunks_to_place(chunks: Sequence[Chunk], learnt: Sequence[Learnt]) -> list[ChunkToPlace]:
    """The chunks with what those before them have learnt. The size of a unit is its weights."""
    return [
        ChunkToPlace(chunk.name, own.weights + own.features, chunk, before)
        for chunk, own, before in zip(chunks, learnt, add_up(learnt)[:-1], strict=True)
    ]


def make_room(folder: str, unit: Unit, shared: Trained) -> Finished[Room]:
    """Make a file in which the weights of the model have their places."""
    arrays, _ = _before_weights(folder, shared)
    places = lay_out(arrays)
    path = files.join(folder, UNFINISHED)
    with files.open_write(path) as stream:  # a new file, whatever was there
        stream.truncate(max(place.end for place in places.values()))
    return Finished((), Room(tuple(places[name].numbers for name in Weights._fields)))


def place_chunk(folder: str, unit: ChunkToPlace, shared: Placing) -> Finished[Placed]:
    """Write the weights of a chunk to their places in the file."""
    before = unit.before
    weights = join_units(read_units(folder, [unit.chunk.name], 0))
    things = {"feature_ptr": before.features, "entry_ptr": before.weights, "child_ptr": before.biases}
    items = (
        before.units,
        before.features,
        before.features,
        before.weights,
        before.weights,
        before.units,
        before.biases,
    )
    pieces = []
    # nothing is read and every write is done when it returns: workers on other machines write the pages beside these
    handle = os.open(files.join(folder, UNFINISHED), os.O_WRONLY | getattr(os, "O_DSYNC", 0))
    try:
        for (name, array), start, item in zip(weights._asdict().items(), shared.room.starts, items, strict=True):
            own = array[:-1] + things[name] if name in POINTERS else array
            numbers = bytes_of(own)
            _write_at(handle, start + item * own.itemsize, numbers)
            pieces.append((zlib.crc32(numbers), len(numbers)))
    finally:
        os.close(handle)
    return Finished((), Placed(tuple(pieces)))


def join_model(folder: str, unit: Unit, shared: ToJoin) -> Finished[ModelFacts]:
    """Fit the calibration and finish the file of the model: all that is not the weights of a chunk."""
    trained = shared.trained
    data, options, plans = trained.training.data(folder), trained.training.options(), read_plans(folder)
    folds = hold_out(data, options) if plans else ()
    calibration = fit_to(data, [predicted(folder, trained, fold) for fold in range(len(folds))], folds)
    if shared.placed is None:
        names = [chunk.name for chunk in trained.chunks]
        forest = make_forest(data, plans, read_units(folder, names, 0), options, sizes_of_units(folder, names, 0))
        LabelTree.of(replace(forest, calibration=calibration), options).save(files.join(folder, MODEL_FILE))
    else:
        _finish(folder, trained, shared.placed, calibration)
        files.link_or_copy(files.join(folder, UNFINISHED), files.join(folder, MODEL_FILE))
    entry = entry_of_file(folder, MODEL_FILE)
    return Finished((entry,), ModelFacts(entry.bytes))


def _before_weights(folder: str, shared: Trained) -> tuple[dict[str, ArrayHeader], dict[str, np.ndarray]]:
    """(the headers of all arrays up to the weights, in order; those arrays that are no weights)."""
    training, learnt = shared.training, shared.learnt
    assert training.rows is not None
    arrays = arrays_of_plans(read_plans(folder), training.rows.n_features, training.rows.n_labels, training.options())
    weights = headers_of_weights(learnt.units, learnt.features, learnt.weights, learnt.biases)
    return _headers(arrays) | weights, arrays


def _headers(arrays: dict[str, np.ndarray]) -> dict[str, ArrayHeader]:
    """The shapes and types of some arrays."""
    return {name: ArrayHeader(array.shape, array.dtype) for name, array in arrays.items()}


def _finish(folder: str, shared: Trained, placed: Sequence[Placed], calibration: CalibrationMap | None) -> None:
    """Write everything but the weights of chunks: the other arrays, the headers of all, and the list of members."""
    headers, arrays = _before_weights(folder, shared)
    after = arrays_of_calibration(calibration)
    places, arrays = lay_out(headers | _headers(after)), arrays | after
    last = dict(zip(POINTERS, (shared.learnt.features, shared.learnt.weights, shared.learnt.biases), strict=True))
    crcs: dict[str, int] = {}
    handle = os.open(files.join(folder, UNFINISHED), os.O_WRONLY)
    try:
        for name, place in places.items():
            if name in arrays:
                own, pieces = bytes_of(arrays[name]), list[tuple[int, int]]()
            else:
                own = bytes_of(np.array([last[name]] if name in last else [], dtype=np.int64))
                pieces = [each.pieces[Weights._fields.index(name)] for each in placed]
            crcs[name] = member_crc(place, [*pieces, (zlib.crc32(own), len(own))])
            _write_at(handle, place.begins, header_of(name, place, crcs[name]))
            _write_at(handle, place.end - len(own), own)
        end = _end(places)
        _write_at(handle, end, directory := directory_of(places, crcs))
        os.truncate(handle, end + len(directory))
        os.fsync(handle)
    finally:
        os.close(handle)


def _end(places: dict[str, Place]) -> int:
    """The first byte after all arrays."""
    return max(place.end for place in places.values())


def _write_at(handle: int, start: int, content: bytes | memoryview) -> None:
    """Write all of some bytes from a place of a file on."""
    left = memoryview(content)
    while left:
        done = os.pwrite(handle, left, start)
        left, start = left[done:], start + done
