"""What a worker does for stage report: it counts the rows of a part, and joins all figures to figures.json.

Holds no figure: those are computed by the room `report`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import scipy.sparse as sp

from xpipe.engine.messages import Finished, Unit, write_entry
from xpipe.formats.parquet_files import open_parquet
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json, read_json, to_plain
from xpipe.ground.sparse import Triple, to_matrix
from xpipe.report.counting import ChanceCounter, label_figures, spread
from xpipe.report.figures import (
    FIGURES,
    FORMAT,
    AssignmentFigures,
    Figures,
    GroupExample,
    GroupFigures,
    LabelFigures,
    SplitFigures,
)
from xpipe.report.group_examples import GroupScores, Words, example, members_of
from xpipe.stages.matrices import MatrixRef, load_group_matrix, open_matrix
from xpipe.stages.report.messages import LengthCount, Nothing, PartToCount, RowLengths, SplitCounts, Texts, ToFigure

POSTERIOR = "posterior"
MOST_WORDS = 12  # features of a row that are named
MOST_LETTERS = 300  # of a text
ARTIFACT = "figures"


def count_part(folder: str, unit: PartToCount, shared: Nothing) -> Finished[RowLengths]:
    """Count the entries of every row of a part."""
    _, rows = open_matrix(unit.matrix, unit.split).part(unit.index)
    lengths, counts = np.unique(np.diff(rows.indptr), return_counts=True)
    return Finished((), RowLengths(tuple(map(LengthCount, lengths.tolist(), counts.tolist()))))


def make_figures(folder: str, unit: Unit, shared: ToFigure) -> Finished[None]:
    """Write figures.json."""
    found = Figures(
        format=FORMAT,
        splits={counts.split: _split(counts) for counts in shared.counts},
        labels=_labels(shared),
        groups=_groups(shared),
        assignment=_assignment(shared),
    )
    return Finished((write_entry(folder, f"{ARTIFACT}/{FIGURES}", dump_json(to_plain(found))),), None)


def _split(counts: SplitCounts) -> SplitFigures:
    """The figures of a split."""
    labels = None if counts.labels is None else spread(_histogram(counts.labels))
    return SplitFigures(sum(each.rows for each in counts.features), spread(_histogram(counts.features)), labels)


def _histogram(lengths: Sequence[LengthCount]) -> np.ndarray:
    """counts[n]: how many rows have n entries."""
    found = np.zeros(max((each.entries for each in lengths), default=-1) + 1, dtype=np.int64)
    for each in lengths:
        found[each.entries] += each.rows
    return found


def _labels(shared: ToFigure) -> LabelFigures | None:
    """How often labels occur."""
    if shared.frequency is None:
        return None
    stored = open_matrix(shared.frequency, "train")
    frequency = np.zeros(stored.n_columns, dtype=np.int64)
    for _, rows in stored.parts():
        frequency += np.bincount(rows.indices, minlength=stored.n_columns)
    return label_figures(frequency, _names(shared, "labels"), shared.counted)


def _names(shared: ToFigure, kind: str) -> list[str] | None:
    """Names of labels or features; None where the data has none."""
    return None if shared.names is None else _read_names(files.join(shared.names, "names", f"{kind}.json"))


@lru_cache(maxsize=3)
def _read_names(path: str) -> list[str] | None:
    """The names in a file, kept for the next example; None where there is no file."""
    return read_json(path, list[str]) if files.exists(path) else None


def _groups(shared: ToFigure) -> GroupFigures | None:
    """The sizes of groups, and of their label sets."""
    if shared.membership is None or shared.group_labels is None:
        return None
    Y1, Y2 = load_group_matrix(shared.membership), load_group_matrix(shared.group_labels)
    sizes, labels = np.asarray(Y1.getnnz(axis=0)), np.diff(Y2.indptr)
    return GroupFigures(Y1.shape[1], spread(np.bincount(sizes)), spread(np.bincount(labels)))


def _assignment(shared: ToFigure) -> AssignmentFigures | None:
    """The chances of owners, and groups to look at."""
    if shared.assigned is None or shared.membership is None or shared.group_labels is None:
        return None
    stored = open_matrix(shared.assigned, "train")
    truth = None if shared.truth is None else open_matrix(shared.truth, "train")
    scores = GroupScores(load_group_matrix(shared.membership), load_group_matrix(shared.group_labels))
    low, high = (0.0, 1.0) if shared.scores == POSTERIOR else _range(shared.assigned)
    counter, pairs = ChanceCounter(low, high), 0
    for index, first in enumerate(stored.starts[:-1]):
        _, owners = stored.part(index)
        right = None if truth is None else _is_true(owners, truth.part(index)[1], stored.n_columns)
        counter.add(owners.values, right)
        scores.add(first, owners)
        pairs += len(owners.indices)
    easy, doubtful = scores.extremes(shared.examples) if shared.scores == POSTERIOR else ([], [])
    return AssignmentFigures(
        scores=shared.scores,
        said="heaviest features" if shared.texts is None else "text",
        pairs=pairs,
        chances=counter.bins(),
        easy=tuple(_example(group, scores, shared) for group in easy),
        doubtful=tuple(_example(group, scores, shared) for group in doubtful),
    )


def _range(where: MatrixRef) -> tuple[float, float]:
    """The least and the largest stored value."""
    parts = [rows.values for _, rows in open_matrix(where, "train").parts() if len(rows.values)]
    return (min(float(part.min()) for part in parts), max(float(part.max()) for part in parts)) if parts else (0.0, 1.0)


def _is_true(owners: Triple, truth: Triple, n_labels: int) -> np.ndarray:
    """Which pairs of owners are pairs of the truth, bool."""
    keys, true = (
        np.repeat(np.arange(rows.n_rows, dtype=np.int64), np.diff(rows.indptr)) * n_labels + rows.indices
        for rows in (owners, truth)
    )
    return np.isin(keys, true)


def _example(group: int, scores: GroupScores, shared: ToFigure) -> GroupExample:
    """A group with its members, and what is known of their texts."""
    assert shared.assigned is not None  # whoever asks for examples has owners
    places = members_of(scores.Y1, group)
    samples, owners = _take(shared.assigned, places)
    truth = None if shared.truth is None else _take(shared.truth, places)[1]
    numbers = dict(zip(places.tolist(), samples.tolist(), strict=True))
    texts = _heavy_features(shared, places) if shared.texts is None else _take_texts(shared.texts, places)
    words = Words(numbers, {} if shared.ids is None else _take_texts(shared.ids, places), texts)
    groups = _names(shared, "groups")
    group_names = groups if groups is not None and len(groups) == scores.Y1.shape[1] else None
    return example(group, scores, owners, truth, places, words, (group_names, _names(shared, "labels")))


def _take_texts(where: Texts, places: np.ndarray) -> dict[int, str]:
    """The texts of the rows at some places, cut where they are long; rows without one are left out."""
    starts = np.cumsum([0, *where.rows])
    found: dict[int, str] = {}
    for index, path in enumerate(where.paths):
        inside = places[(places >= starts[index]) & (places < starts[index + 1])]
        if not len(inside):
            continue
        with open_parquet(path, []) as parquet:
            if where.column not in parquet.schema_arrow.names:
                return {}
            column = parquet.read(columns=[where.column], use_threads=False)[where.column]
        for place in inside.tolist():
            text = column[place - int(starts[index])].as_py()
            if text is not None:
                plain = " ".join(str(text).split())
                found[place] = plain if len(plain) <= MOST_LETTERS else plain[:MOST_LETTERS] + "…"
    return found


def _take(where: MatrixRef, places: np.ndarray) -> tuple[np.ndarray, sp.csr_matrix]:
    """(sample numbers, rows) at some places."""
    stored = open_matrix(where, "train")
    samples, rows = stored.take(places)
    return samples, to_matrix(rows, stored.n_columns)


def _heavy_features(shared: ToFigure, places: np.ndarray) -> dict[int, str]:
    """For each row, the names of its features with the largest values; nothing where features have no names."""
    names = _names(shared, "features")
    if names is None:
        return {}
    _, rows = _take(shared.features, places)
    found = {}
    for number, place in enumerate(places.tolist()):
        inside = slice(rows.indptr[number], rows.indptr[number + 1])
        heavy = np.argsort(-rows.data[inside], kind="stable")[:MOST_WORDS]
        found[place] = ", ".join(names[feature] for feature in rows.indices[inside][heavy])
    return found
