"""Seeded damage to input files: small whole files of every kind that is read, and mutations of their bytes.

Holds no assertions and no reading, so that tests and campaigns of any length share it.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

N_ROWS, N_FEATURES, N_LABELS, N_GROUPS = 12, 9, 5, 4
NUMBERS = [
    b"-1",
    b"0",
    b"1",
    b"9" * 9,
    b"9" * 15,
    b"9" * 5000,
    b"2147483648",
    b"9223372036854775808",
    b"0.5",
    b"1e400",
    b"nan",
]


def matrices(seed: int = 0) -> dict[str, sp.csr_matrix]:
    """X, Y, Y1, Y2 that fit each other."""
    rng = np.random.default_rng(seed)
    X = sp.random(N_ROWS, N_FEATURES, 0.3, "csr", np.float32, rng)
    X.data = (rng.integers(1, 999, len(X.data)) / 8).astype(np.float32)
    Y = sp.csr_matrix((rng.random((N_ROWS, N_LABELS)) < 0.3).astype(np.float32))
    Y1 = sp.csr_matrix(np.eye(N_GROUPS, dtype=np.float32)[np.arange(N_ROWS) % N_GROUPS])
    Y2 = sp.csr_matrix((rng.random((N_GROUPS, N_LABELS)) < 0.5).astype(np.float32))
    return {"X": X, "Y": Y, "Y1": Y1, "Y2": Y2}


def write_folder(kind: str, folder: Path) -> list[str]:
    """A whole dataset of one kind; gives the names of the files that may be damaged."""
    from xpipe.formats import write_sparse, write_svmlight, write_xmc

    folder.mkdir(parents=True, exist_ok=True)
    given = matrices()
    X, Y, Y1, Y2 = given.values()
    if kind == "xmc":
        write_xmc(str(folder / "train.txt"), X, Y)
        write_xmc(str(folder / "test.txt"), X[:4], Y[:4])
        (folder / "labels.txt").write_text("".join(f"name {i} é\n" for i in range(N_LABELS)))
        (folder / "features.txt").write_text("".join(f"f{i}\tword {i}\n" for i in range(N_FEATURES)))
        (folder / "filter_labels_test.txt").write_text("0 1\n3 4\n")
        (folder / "train_groups.txt").write_text("".join(f"{i % N_GROUPS}\n" for i in range(N_ROWS)))
    elif kind == "gz":
        write_xmc(str(folder / "train.txt.gz"), X, Y)
        (folder / "labels.txt.gz").write_bytes(gzip.compress("".join(f"{i}\n" for i in range(N_LABELS)).encode()))
    elif kind == "split":
        for name, matrix in (("trn_X_Xf", X), ("trn_X_Y", Y), ("tst_X_Xf", X[:4]), ("tst_X_Y", Y[:4])):
            write_sparse(str(folder / f"{name}.txt"), matrix)
    elif kind == "grouped":
        write_sparse(str(folder / "trn_X_Xf.txt"), X)
        write_sparse(str(folder / "trn_X_Y1.txt"), Y1)
        write_sparse(str(folder / "trn_Y2.txt"), Y2)
    elif kind == "npz":
        for form, (name, matrix) in zip(("csr", "bsr"), (("X", X), ("Y", Y)), strict=True):
            sp.save_npz(folder / f"{name}.trn.npz", matrix.asformat(form), compressed=name == "X")
    elif kind == "svmlight":
        write_svmlight(str(folder / "train.svm"), X, Y, index_base=1)
    elif kind == "parquet-matrices":
        write_sparse(str(folder / "X.trn.parquet"), X)
        write_sparse(str(folder / "Y.trn.parquet"), Y)
    elif kind == "emitted":
        write_emitted(folder, X, Y)
    else:
        raise ValueError(kind)
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


KINDS = ("xmc", "gz", "split", "grouped", "npz", "svmlight", "parquet-matrices", "emitted")
READING = {"svmlight": {"n_features": N_FEATURES, "n_labels": N_LABELS, "index_base": 1}}


def write_emitted(folder: Path, X: sp.csr_matrix, Y: sp.csr_matrix) -> None:
    """An emitted dataset of two parts with its labels.parquet."""
    from xpipe.formats.parquet import write_dataset_part, write_labels
    from xpipe.ground.sparse import to_triple

    parts = []
    for index, (start, stop) in enumerate(((0, 7), (7, X.shape[0]))):
        path = f"split=train/part-{index:05d}.parquet"
        facts = write_dataset_part(
            str(folder / path), np.arange(start, stop), to_triple(X[start:stop]), to_triple(Y[start:stop]),
            n_features=X.shape[1], n_labels=Y.shape[1], row_group=4,
        )  # fmt: skip
        parts.append({"path": path, **facts})
    n = Y.shape[1]
    labels = {"label": np.arange(n), "original_label": np.arange(n), "name": [f"name {i}" for i in range(n)],
              "frequency": np.ones(n, np.int64), "inverse_propensity": np.ones(n)}  # fmt: skip
    about = {"format": "1", "n_features": X.shape[1], "n_labels": n, "n_original_labels": n, "k": 3,
             "splits": {"train": {"rows": X.shape[0], "parts": parts}}, "propensity": {"a": 0.5, "b": 1.5},
             "labels": {"path": "labels.parquet", **write_labels(str(folder / "labels.parquet"), labels)}}  # fmt: skip
    (folder / "dataset.json").write_text(json.dumps(about, indent=1))


def write_scores(path: Path) -> None:
    """Scores as others write them."""
    Y = matrices()["Y"]
    rows = [row.indices.tolist() for row in Y]
    values = [[0.5] * len(row) for row in rows]
    pq.write_table(
        pa.table({"sample": range(N_ROWS), "indices": pa.array(rows, pa.list_(pa.int64())), "values": values}), path
    )


@dataclass(frozen=True)
class Mutation:
    """One damage: what was done, and the bytes after it."""

    how: str
    content: bytes


def mutations(content: bytes, seed: int, count: int) -> Iterator[Mutation]:
    """`count` mutations of a file's bytes, the same ones for the same seed."""
    rng = random.Random(seed)
    kinds = list(MUTATORS)
    for number in range(count):
        how = kinds[(number + seed) % len(kinds)]
        yield Mutation(how, MUTATORS[how](content, rng))


def _flip(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 8])):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _truncate(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _insert(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    return (
        content[:place]
        + rng.choice([b" ", b"\n", b"\0", b":", b",", b"\xff", b"-", b"\r", b"\n" * 50, *NUMBERS])
        + content[place:]
    )


def _remove(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    return content[:place] + content[place + rng.choice([1, 2, 16]) :]


def _swap(content: bytes, rng: random.Random) -> bytes:
    if len(content) < 4:
        return content
    first, second = sorted(rng.sample(range(len(content)), 2))
    width = min(rng.choice([1, 4, 16]), second - first)
    middle = content[first + width : second]
    return (
        content[:first]
        + content[second : second + width]
        + middle
        + content[first : first + width]
        + content[second + width :]
    )


def _number(content: bytes, rng: random.Random) -> bytes:
    """Another number where one stands; in the first line every second time: headers."""
    import re

    places = [match.span() for match in re.finditer(rb"\d+", content)]
    if not places:
        return _flip(content, rng)
    start, stop = rng.choice(places[:3] if rng.random() < 0.5 else places)
    return content[:start] + rng.choice(NUMBERS) + content[stop:]


def _lines(content: bytes, rng: random.Random) -> bytes:
    """A line twice, left out, moved, or begun with a blank."""
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    line = lines.pop(at)
    what = rng.randrange(4)
    if what == 0:
        lines[at:at] = [line, line]
    elif what == 2:
        lines.insert(rng.randrange(len(lines) + 1), line)
    elif what == 3:
        lines.insert(at, b" " + line)
    return b"\n".join(lines)


def _repeat(content: bytes, rng: random.Random) -> bytes:
    return content + content[rng.randrange(len(content) + 1) :]


MUTATORS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "flip": _flip, "truncate": _truncate, "insert": _insert, "remove": _remove,
    "swap": _swap, "number": _number, "lines": _lines, "repeat": _repeat,
}  # fmt: skip
