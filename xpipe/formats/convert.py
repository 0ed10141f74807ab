"""One format to another: a folder or a file in, a folder with the target's usual names out. Works in memory."""

from __future__ import annotations

import os
from typing import Any

import scipy.sparse as sp

from xpipe import files
from xpipe.errors import DataError

SHORT = {"train": "trn", "test": "tst", "dev": "dev"}


def convert(source: str, target: str, form: str, **reading: Any) -> list[str]:
    """Write what `source` holds to the folder `target` as xmc, split, npz, svmlight or parquet; gives the paths.

    source: a folder that read_dataset knows, or one XMC text or svmlight file (it becomes the split train).
    reading: index_base, label_base, n_features, n_labels. What is written counts from 0, svmlight features from 1.
    """
    source, target = files.local(source), files.local(target)
    if files.is_folder(target) and files.listing(target):
        raise DataError(
            f"{target} is not empty",
            why="files of two formats in one folder cannot be told apart",
            fix="give a new folder",
        )
    splits, names = _read(source, reading)
    written = []
    for split, matrices in splits.items():
        for name, matrix in matrices.items():
            written += _write(target, split, name, matrix, matrices, form)
    for name, lines in names.items():
        path = files.join(target, f"{name}.txt")
        files.write_bytes(path, "".join(f"{line}\n" for line in lines).encode())
        written.append(path)
    return written


def _read(source: str, reading: dict) -> tuple[dict[str, dict[str, sp.csr_matrix]], dict[str, list[str]]]:
    if files.is_folder(source):
        from xpipe.formats.dataset import read_dataset

        dataset = read_dataset(source, **reading)
        splits = {}
        for name, split in dataset.splits.items():
            given = {"X": split.X, "Y": split.Y, "Y1": split.Y1, "Y2": split.Y2}
            splits[name] = {key: matrix for key, matrix in given.items() if matrix is not None}
        found = {"labels": dataset.label_names, "features": dataset.feature_names}
        return splits, {key: names.names for key, names in found.items() if names is not None}
    from xpipe.formats.svmlight import read_svmlight
    from xpipe.formats.xmc_text import read_xmc

    stem = source.removesuffix(".gz")
    if stem.endswith((".svm", ".svmlight", ".libsvm")):
        X, Y = read_svmlight(source, **reading)
    else:
        X, Y = read_xmc(source, header=not (reading.get("n_features") and reading.get("n_labels")), **reading)
    return {"train": {"X": X, "Y": Y}}, {}


def _write(target: str, split: str, name: str, matrix: sp.csr_matrix, matrices: dict, form: str) -> list[str]:
    """The file(s) of one matrix; X and Y share a file in xmc and svmlight, groups always have their own."""
    from xpipe.formats import write_sparse, write_svmlight, write_xmc

    combined = form in ("xmc", "svmlight")
    if combined and name == "Y":
        return []
    os.makedirs(target, exist_ok=True)
    if combined and name == "X":
        if "Y" not in matrices:
            raise DataError(
                f"the {split} split has no labels of single samples",
                why=f"{form} has no place for groups",
                fix="--to npz or split",
            )
        path = files.join(target, f"{split}.{'txt' if form == 'xmc' else 'svm'}")
        if form == "xmc":
            write_xmc(path, matrix, matrices["Y"])
        else:
            write_svmlight(path, matrix, matrices["Y"], index_base=1)
        return [path]
    names = {"X": "X_Xf", "Y": "X_Y", "Y1": "X_Y1", "Y2": "Y2"}
    ending = {"npz": "npz", "parquet": "parquet"}.get(form)
    file_name = f"{name}.{SHORT[split]}.{ending}" if ending else f"{SHORT[split]}_{names[name]}.txt"
    path = files.join(target, file_name)
    write_sparse(path, matrix)
    return [path]
