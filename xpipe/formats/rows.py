"""Blocks of lines: parsed by the kernel, and put together into rows.

Holds no reading of files and no wording of errors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from xpipe.errors import DataError
from xpipe.formats import _numba as kernels
from xpipe.formats import diagnosis
from xpipe.formats.blocks import LineReader, open_stream
from xpipe.formats.source import KINDS, Reject, Rows, TextSource
from xpipe.ground.sparse import Triple

MOST_REJECTS = 1_000_000  # rows that on_bad_row="drop" lists: beyond that the file is not what it is taken for


class Problem(NamedTuple):
    """A row that the kernel refused. Rows and lines count from the block's first; token: see `diagnosis.explain`."""

    status: int
    row: int
    line: int
    token: int
    text: bytes
    is_last: bool


class Block:
    """Buffers for one block of whole lines and for its rows; they are used for many blocks."""

    def __init__(self, source: TextSource, drop: bool):
        self.drop = drop
        self.rules = np.array(
            [
                KINDS.index(source.kind),
                source.n_features,
                source.n_labels,
                source.index_base,
                source.label_base,
                source.n_rows is None,
            ],
            dtype=np.int64,
        )
        self.text = bytearray()
        self.filled = 0
        self.newline_added = False
        self.feature_ends = self.label_ends = np.empty(0, np.int64)
        self.features = self.labels = np.empty(0, np.int32)
        self.values = self.label_values = np.empty(0, np.float32)
        self.unsure = np.empty((256, 3), np.int64)
        self.state = np.zeros(8, np.int64)
        self.problems: list[Problem] = []

    def read(self, reader: LineReader) -> bool:
        """Take the next lines; False at the end."""
        self.text, self.filled = reader.read_into(self.text)
        self.newline_added = reader.newline_added
        return self.filled > 0

    def parse(self) -> None:
        """Parse the lines. Bad rows are left out and listed in `problems`; unless dropping, the first one ends it."""
        view = np.frombuffer(self.text, np.uint8, self.filled)
        self._make_room(kernels.count_lines(view))
        self.state[:] = 0
        self.state[kernels.CLEARED] = -1
        self.problems = []
        while status := kernels.parse_lines(
            view,
            self.rules,
            self.state,
            self.feature_ends,
            self.features,
            self.values,
            self.label_ends,
            self.labels,
            self.label_values,
            self.unsure,
        ):
            if status == kernels.UNSURE_FULL:
                self._finish_values()
                self.unsure = np.empty((2 * len(self.unsure), 3), np.int64)
            elif status == kernels.NEAR_OVERFLOW and self._is_finite(int(self.state[kernels.TOKEN])):
                self.state[kernels.CLEARED] = self.state[kernels.TOKEN]
            else:
                self._leave_row_out(status)
                if not self.drop or len(self.problems) > MOST_REJECTS:
                    break
        self._finish_values()

    @property
    def n_rows(self) -> int:
        return int(self.state[kernels.ROW])

    @property
    def n_lines(self) -> int:
        return int(self.state[kernels.LINE])

    @property
    def n_entries(self) -> int:
        return int(self.state[kernels.FEATURE])

    @property
    def n_label_entries(self) -> int:
        return int(self.state[kernels.LABEL])

    def _make_room(self, n_lines: int) -> None:
        """Make the arrays large enough for all rows and entries that the text can have."""
        if len(self.feature_ends) < n_lines:
            self.feature_ends, self.label_ends = np.empty(n_lines, np.int64), np.empty(n_lines, np.int64)
        n_entries = self.filled // 4 + 1  # the shortest entry is `1:2` and a blank, the shortest label `1` and a comma
        if len(self.features) < n_entries:
            n_labels = self.filled // 2 + 1 if self.rules[kernels.KIND] != kernels.SPARSE else 0
            self.features, self.values = np.empty(n_entries, np.int32), np.empty(n_entries, np.float32)
            self.labels, self.label_values = np.empty(n_labels, np.int32), np.empty(n_labels, np.float32)

    def _finish_values(self) -> None:
        """Compute the values of which the kernel is not sure."""
        for entry, start, _ in self.unsure[: self.state[kernels.UNSURE]].tolist():
            self.values[entry] = float(diagnosis.number_at(self.text, start))
        self.state[kernels.UNSURE] = 0

    def _is_finite(self, token: int) -> bool:
        """Whether the value of an entry is finite as float32."""
        return diagnosis.is_finite(diagnosis.number_at(self.text, self.text.index(b":", token) + 1))

    def _leave_row_out(self, status: int) -> None:
        """List the row at which the kernel stopped, and go on behind it."""
        state = self.state
        start = int(state[kernels.POSITION])
        stop = self.text.index(b"\n", start)
        twice = status in (kernels.TWICE_LABEL, kernels.TWICE_FEATURE)
        token = int(state[kernels.TOKEN])
        self.problems.append(
            Problem(
                status=int(status),
                row=self.n_rows + len(self.problems),
                line=self.n_lines,
                token=token if twice else token - start,
                text=bytes(self.text[start:stop]),
                is_last=self.newline_added and stop + 1 == self.filled,
            )
        )
        state[kernels.POSITION] = stop + 1
        state[kernels.LINE] += 1


class Growing:
    """A 1-d array that grows at its end. Where its final length can be foreseen, memory is taken once."""

    def __init__(self, dtype: Any):
        self.array = np.empty(0, dtype)
        self.length = 0

    def extend(self, piece: np.ndarray, share: float | None) -> None:
        """Append a piece. share: the part of the input read so far, this piece included; None where it is not known."""
        length = self.length + len(piece)
        if length > len(self.array):
            room = length + length // 2 if share is None else max(int(length / share * 1.02), length) + 1024
            if self.length:
                self.array.resize(room, refcheck=False)  # moves pages, not bytes
            else:
                self.array = np.empty(room, self.array.dtype)
        self.array[self.length : length] = piece
        self.length = length

    def finish(self) -> np.ndarray:
        """The array, cut to its length."""
        self.array.resize(self.length, refcheck=False)
        return self.array


class RowsBuilder:
    """Puts parsed blocks together in the order of the file; raises on the first bad row, or lists bad rows."""

    def __init__(self, source: TextSource, start: int, first_row: int, n_bytes: int | None):
        self.source, self.start, self.first_row, self.n_bytes = source, start, first_row, n_bytes
        self.n_read = self.n_rows = self.n_lines = 0
        self.features, self.values, self.feature_ends = Growing(np.int32), Growing(np.float32), Growing(np.int64)
        self.labels, self.label_values, self.label_ends = Growing(np.int32), Growing(np.float32), Growing(np.int64)
        for ends in (self.feature_ends, self.label_ends):
            ends.extend(np.zeros(1, np.int64), None)
        self.rejects: list[Reject] = []

    def append(self, block: Block) -> None:
        """Add the rows of the next block."""
        for problem in block.problems:
            self._reject(problem, block.drop)
        self.n_read += block.filled
        share = min(self.n_read / self.n_bytes, 1.0) if self.n_bytes else None
        before = self.features.length, self.labels.length
        self.feature_ends.extend(block.feature_ends[: block.n_rows] + before[0], share)
        self.features.extend(block.features[: block.n_entries], share)
        self.values.extend(block.values[: block.n_entries], share)
        if self.source.kind != "sparse":
            self.label_ends.extend(block.label_ends[: block.n_rows] + before[1], share)
            self.labels.extend(block.labels[: block.n_label_entries], share)
            self.label_values.extend(block.label_values[: block.n_label_entries], share)
        self.n_rows += block.n_rows + len(block.problems)
        self.n_lines += block.n_lines

    def finish(self) -> Rows:
        """All rows."""
        samples = np.arange(self.first_row, self.first_row + self.n_rows, dtype=np.int64)
        if self.rejects:
            samples = np.delete(samples, [reject.row - self.first_row for reject in self.rejects])
        labels = Triple(self.label_ends.finish(), self.labels.finish(), self.label_values.finish())
        return Rows(
            features=Triple(self.feature_ends.finish(), self.features.finish(), self.values.finish()),
            labels=None if self.source.kind == "sparse" else labels,
            samples=samples,
            rejects=self.rejects,
        )

    def _reject(self, problem: Problem, drop: bool) -> None:
        """Raise the error of a bad row, or list the row."""
        line = self._first_line() + self.n_lines + problem.line
        found = diagnosis.explain(self.source, problem.status, problem.text, problem.token, first_line=line == 1)
        if not drop:
            raise diagnosis.bad_row(self.source, line, found, cut=problem.is_last)
        text = diagnosis.shorten(problem.text, diagnosis.TEXT_LENGTH)
        row = self.first_row + self.n_rows + problem.row
        self.rejects.append(Reject(row, line, found.token, found.reason, text))
        if len(self.rejects) > MOST_REJECTS:
            raise DataError(
                f"more than {MOST_REJECTS:,} bad rows",
                where=f"{self.source.name}:{line}, token {found.token!r}",
                why=f"the last one: {found.reason}",
                fix="look at the first lines: the file may be of another format",
            )

    def _first_line(self) -> int:
        """The line number of the first row of the range. Comments are no rows, so lines before it are counted."""
        if self.source.kind != "svmlight":
            return self.source.first_line + self.first_row
        n_lines = 0
        with open_stream(self.source.path, start=self.source.first_byte, compressed=self.source.compressed) as stream:
            left = self.start - self.source.first_byte
            while left and (piece := stream.read(min(left, 1 << 20))):
                n_lines += piece.count(b"\n")
                left -= len(piece)
        return self.source.first_line + n_lines
