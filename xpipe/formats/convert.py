"""One format to another: a folder or a file in, a folder with the target's usual file names out. Works in memory.

Leaves nothing out silently: what the target has no place for is an error or a note.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from xpipe.errors import DataError
from xpipe.formats.dataset import Dataset, Split, read_dataset
from xpipe.formats.file_names import SHORT_SPLITS
from xpipe.formats.names import Names
from xpipe.ground import files
from xpipe.ground.sparse_rows import entry_rows, matrix_with_ones

WITHOUT_WEIGHTS = ("xmc", "svmlight")


class Source(NamedTuple):
    """What there is to write.

    names: of labels and features. synthetic: the marker file of a stand-in, else None. scores: whether the label values
    are scores that xpipe computed, instead of weights of the data.
    """

    splits: dict[str, Split]
    names: dict[str, Names]
    synthetic: bytes | None
    scores: bool


def convert(source: str, target: str, form: str, *, notes: list[str] | None = None, **reading: Any) -> list[str]:
    """Write a dataset in another format.

    What is written counts from 0, except for svmlight features, which count from 1.

    Parameters
    ----------
    source : str
        A folder that `read_dataset` reads, or one XMC text or svmlight file, which becomes the split train.
    target : str
        A new or empty folder.
    form : {"xmc", "split", "npz", "svmlight", "parquet"}
        The format to write.
    notes : list of str, optional
        Gets a sentence for everything that the target cannot hold.
    **reading
        index_base, label_base, n_features, n_labels, header; for folders also format and split_base.

    Returns
    -------
    list of str
        The paths of the files written.

    Raises
    ------
    DataError
        Where the source cannot be read, or has labels of groups or label weights for which the format has no place.
    """
    source, target = files.local(source), files.local(target)
    notes = [] if notes is None else notes
    if files.is_folder(target) and files.listing(target):
        raise DataError(
            f"{target} is not empty",
            why="files of two formats in one folder cannot be told apart",
            fix="give a new folder",
        )
    found = _read_folder(source, notes, reading) if files.is_folder(source) else _read_file(source, reading)
    if form in WITHOUT_WEIGHTS and found.scores:
        found = found._replace(splits={name: _without_scores(split) for name, split in found.splits.items()})
        notes.append(f"label scores are left out: {form} has no place for them; split, npz and parquet keep them")
    os.makedirs(target, exist_ok=True)
    written: list[str] = []
    for split, content in found.splits.items():
        written += _write_split(target, split, content, form)
        written += [_write_text(target, name, lines) for name, lines in _texts_of(split, content)]
    for key, names in found.names.items():
        written.append(_write_text(target, f"{key}.txt", _name_lines(names, key)))
    if found.synthetic is not None:
        path = files.join(target, "SYNTHETIC.json")
        files.write_bytes(path, found.synthetic)
        written.append(path)
    if form == "svmlight":
        some = next(iter(found.splits.values()))
        sizes = f"n_features {some.X.shape[1]}, n_labels {some.Y.shape[1] if some.Y is not None else 0}"
        notes.append(f"svmlight files do not say how wide they are; to read them give {sizes}, index_base 1")
    return written


def _read_folder(source: str, notes: list[str], reading: dict[str, Any]) -> Source:
    """What a folder holds."""
    dataset = read_dataset(source, **reading)
    found = {"labels": dataset.label_names, "features": dataset.feature_names}
    marker = files.join(source, "SYNTHETIC.json")
    synthetic = None
    if dataset.synthetic:
        synthetic = files.read_bytes(marker) if files.exists(marker) else b'{"SYNTHETIC": "rows of a stand-in"}\n'
    scores = False
    if dataset.layout.format == "parquet":
        scores = _is_scored(dataset)
        notes.append("of an emitted dataset rows, labels and names are written; not its sample numbers, propensities "
                     "and provenance, nor label vectors, which stay in the source")  # fmt: skip
    return Source(dataset.splits, {key: each for key, each in found.items() if each is not None}, synthetic, scores)


def _is_scored(dataset: Dataset) -> bool:
    """Whether a label has a value other than 1."""
    return any(split.Y is not None and (split.Y.data != 1).any() for split in dataset.splits.values())


def _read_file(source: str, reading: dict[str, Any]) -> Source:
    """What a single file holds, as the training split."""
    from xpipe.formats.single_file import read_samples

    X, Y = read_samples(source, **{key: value for key, value in reading.items() if key not in ("format", "split_base")})
    return Source({"train": Split(X, Y, None, None, None, None, np.arange(X.shape[0]))}, {}, None, False)


def _without_scores(split: Split) -> Split:
    """The split with the value 1 for each label."""
    from dataclasses import replace

    assert split.Y is not None, "only splits with label scores come here"
    return replace(split, Y=matrix_with_ones(split.Y))


def _write_split(target: str, split: str, content: Split, form: str) -> Iterator[str]:
    """Write the matrices of a split; gives the paths. X and Y share a file in xmc and svmlight."""
    from xpipe.formats import write_sparse, write_svmlight, write_xmc

    given = {"X": content.X, "Y": content.Y, "Y1": content.Y1, "Y2": content.Y2}
    matrices: dict[str, sp.csr_matrix] = {key: matrix for key, matrix in given.items() if matrix is not None}
    if form in WITHOUT_WEIGHTS:
        if "Y" not in matrices:
            raise DataError(
                f"the {split} split has no labels of single samples",
                why=f"{form} has no place for groups",
                fix="--to npz or split",
            )
        path = files.join(target, f"{split}.{'txt' if form == 'xmc' else 'svm'}")
        X, Y = matrices.pop("X"), matrices.pop("Y")
        if form == "xmc":
            write_xmc(path, X, Y)
        else:
            write_svmlight(path, X, Y, index_base=1)
        yield path
    stems = {"X": "X_Xf", "Y": "X_Y", "Y1": "X_Y1", "Y2": "Y2"}
    ending = {"npz": "npz", "parquet": "parquet"}.get(form)
    for name, matrix in matrices.items():
        file_name = f"{name}.{SHORT_SPLITS[split]}.{ending}" if ending else f"{SHORT_SPLITS[split]}_{stems[name]}.txt"
        path = files.join(target, file_name)
        write_sparse(path, matrix)
        yield path


def _texts_of(split: str, content: Split) -> Iterator[tuple[str, list[str]]]:
    """(name, lines) of the text files beside a split: group ids without labels, and filter pairs."""
    if content.groups is not None:
        ids = np.full(content.groups.shape[0], -1)
        ids[entry_rows(content.groups.indptr)] = content.groups.indices
        yield f"{split}_groups.txt", [str(group) for group in ids.tolist()]
    if content.filter_labels is not None:
        yield f"filter_labels_{split}.txt", [f"{row} {label}" for row, label in content.filter_labels.tolist()]


def _name_lines(names: Names, key: str) -> list[str]:
    """Lines that read back as these names. Raises DataError for a name that cannot stand on a line."""
    ids = names.ids
    lines = names.names if ids is None else [f"{old}\t{name}" for old, name in zip(ids, names.names, strict=True)]
    for number, line in enumerate(lines):
        if "\n" in line or line.endswith("\r") or (number == 0 and line.startswith("\ufeff")):
            raise DataError(
                f"the name {line[:60]!r} cannot stand on a line", where=f"{key} {number}", fix="rename it in the source"
            )
    if ids is None and lines and all("\t" in line for line in lines):
        raise DataError(
            "every name has a tab, so that what stands before it would be read as an id", where=key,
            fix="rename one of them in the source",
        )  # fmt: skip
    return lines


def _write_text(target: str, name: str, lines: list[str]) -> str:
    """Write lines to a file of the target; gives its path."""
    path = files.join(target, name)
    files.write_bytes(path, "".join(f"{line}\n" for line in lines).encode(errors="surrogatepass"))
    return path
