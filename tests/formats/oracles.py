"""Slow, obviously right twins of the text readers: plain Python, one line at a time.

Hold no checks of bad input: what must be refused is listed in the tests, case by case.
"""

from __future__ import annotations

import re

import numpy as np
import scipy.sparse as sp


def parse_lines(
    text: str, kind: str, n_features: int, n_labels: int, index_base: int = 0, label_base: int = 0
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """(features, labels) of lines without a header; for kind "sparse" labels have no columns."""
    features: list[dict[int, np.float32]] = []
    labels: list[dict[int, np.float32]] = []
    for line in text.split("\n")[: -1 if text.endswith("\n") else None]:
        content = line.rstrip("\r")
        if kind == "svmlight":
            content, hash_sign, _ = content.partition("#")
            if hash_sign and not content.strip(" \t"):
                continue
            if not hash_sign and re.fullmatch(rf"[ \t]+{index_base}:0", content):  # how an empty row is written
                content = ""
        tokens = content.replace("\t", " ").split(" ")
        tokens = [token for token in tokens if token]
        chosen = []
        if kind != "sparse" and tokens and ":" not in tokens[0]:
            chosen = [int(label) - label_base for label in tokens.pop(0).split(",")]
        labels.append({label: np.float32(1) for label in sorted(chosen)})
        pairs = [token.split(":") for token in tokens]
        row = {int(index) - index_base: to_float32(value) for index, value in pairs}
        features.append(dict(sorted(row.items())))
    return to_csr(features, n_features), to_csr(labels, n_labels)


def to_float32(token: str) -> np.float32:
    with np.errstate(all="ignore"):
        return np.float32(float(token))


def to_csr(rows: list[dict[int, np.float32]], width: int) -> sp.csr_matrix:
    indptr = np.cumsum([0] + [len(row) for row in rows])
    indices = np.array([index for row in rows for index in row], dtype=np.int32)
    values = np.array([value for row in rows for value in row.values()], dtype=np.float32)
    return sp.csr_matrix((values, indices, indptr), shape=(len(rows), width))


def find_rows(text: bytes, svmlight: bool) -> list[int]:
    """Byte offset of each row's line."""
    starts, position = [], 0
    for line in text.split(b"\n")[: -1 if text.endswith(b"\n") else None]:
        if not (svmlight and line.strip(b" \t").startswith(b"#")):
            starts.append(position)
        position += len(line) + 1
    return starts


def assert_same(found: sp.csr_matrix, wanted: sp.csr_matrix) -> None:
    """Equal to the last bit, -0.0 and explicit zeros included."""
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(found.indptr, wanted.indptr)
    np.testing.assert_array_equal(found.indices, wanted.indices)
    np.testing.assert_array_equal(found.data.view(np.uint32), wanted.data.astype(np.float32).view(np.uint32))
