"""Rows to predict, in blocks: from a folder or a file of any format that stage read reads.

Holds no prediction and no rules of reading: those are stage read's own. `rows_of_input` is the one place that decides
what an input is: a matrix (here), or a table that goes through the vectorizer of the run (`table_rows`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from xpipe.errors import ConfigError, DataError
from xpipe.formats.blocks import is_compressed, open_stream
from xpipe.formats.file_names import SVMLIGHT_ENDINGS
from xpipe.formats.header import WIDEST
from xpipe.formats.layout import Layout, SplitFiles, recognise
from xpipe.formats.matrix_formats import matrix_format_of
from xpipe.formats.reading import InputFile, files_with_rows
from xpipe.ground import files
from xpipe.ground.sparse import canonical, to_matrix
from xpipe.stages.predict.block_rows import BlockRows, InputRows
from xpipe.stages.predict.run_models import StoredModel
from xpipe.stages.predict.table_rows import is_table, stage_table
from xpipe.stages.read.params import DataParams
from xpipe.stages.read.scanning import FileToScan, Reading, ScannedFile, scan_file
from xpipe.stages.read.work import RowRange, cut_rows, read_rows

WITH_FEATURES = ("samples", "features", "emitted")  # roles of files that have the features
PREFERRED = ("test", "dev", "train")  # the split of a folder that is predicted, unless one is named


@dataclass(frozen=True)
class MatrixRows:
    """Rows of a matrix in a file, as stage read reads them."""

    scanned: ScannedFile
    reading: Reading

    @property
    def n_features(self) -> int:
        """Columns of the rows."""
        return self.scanned.size.widths["features"]

    def blocks(self) -> list[RowRange]:
        """Blocks of `part_rows` rows of section `data`."""
        return cut_rows(self.scanned.size.rows, self.reading.params.part_rows)

    def read(self, folder: str, rows: RowRange) -> BlockRows:
        """The rows of a block. Labels beside the features are left out."""
        found = read_rows(folder, self.scanned, rows, self.reading)
        return BlockRows(found.samples, None, canonical(to_matrix(found.matrices["features"], self.n_features), "rows"))


def rows_of_input(
    folder: str, place: str, params: DataParams, model: StoredModel, n_features: int, split: str | None
) -> InputRows:
    """The rows at a place: what it is decides how it is read.

    folder: a scratch folder, which workers see too. params: section `data` of the run. n_features: of the model; files
    that do not say their width have so many. split: of a folder, where it has several. Raises DataError or
    ConfigError where there are no rows.
    """
    place = files.local(os.fspath(place))
    if model.vectorizer is not None and is_table(place):
        return stage_table(folder, place, params, model.vectorizer, split)
    if not files.exists(place):
        raise DataError("there is no such input", where=place, fix="check the path; relative paths start where you are")
    if files.is_folder(place):
        layout = recognise(place)
        file = _file_of_folder(layout, split)
    else:
        file = _single_file(place)
        layout = Layout(files.parent(place), file.text_kind, place, {file.split: SplitFiles()}, None, None, False)
    if file.text_kind == "svmlight":  # it does not say how wide it is; its labels are not looked at
        params = params.model_copy(update={"n_features": params.n_features or n_features, "n_labels": WIDEST})
    reading = Reading(layout, params, state=repr(files.stamp(file.path)))
    return MatrixRows(scan_file(folder, FileToScan(file.name, 0, file), reading).result, reading)


def _file_of_folder(layout: Layout, split: str | None) -> InputFile:
    """The file of a folder that has the features of the split to predict."""
    by_split = {file.split: file for file in files_with_rows(layout) if file.role in WITH_FEATURES}
    if split is not None and split not in by_split:
        raise ConfigError(
            f"the input has no split {split!r}", where=layout.folder, why=f"it has {', '.join(by_split)}",
            fix="name one of these, or give one file",
        )  # fmt: skip
    return by_split[split or next(each for each in PREFERRED if each in by_split)]


def _single_file(path: str) -> InputFile:
    """One file by its name and its first line, as `formats.single_file` tells them apart."""
    file = InputFile("test", "features", path)
    if matrix_format_of(path) is not None:
        return file
    if path.removesuffix(".gz").endswith(SVMLIGHT_ENDINGS):
        return replace(file, role="samples", text_kind="svmlight")
    with open_stream(path, compressed=is_compressed(path)) as stream:
        header = stream.read(64).split(b"\n", 1)[0].split()
    if len(header) == 2 and all(number.isdigit() for number in header):
        return file  # a split file: one matrix
    return replace(file, role="samples", text_kind="xmc")
