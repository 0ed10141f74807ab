"""Reads mutated folders and judges what comes: `python -m tests.formats.mutated KIND FOLDER COUNT [SEED]`.

Prints one line of JSON: how many were tried, read, refused, and which were wrong. Holds no mutations of its own.
"""

from __future__ import annotations

import gzip
import json
import re
import resource
import sys
from pathlib import Path

import numpy as np

from tests import mutations
from tests.formats import oracles

MEMORY = 6 << 30  # bytes of address space: what declares terabytes fails at once
NUMBER = rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"


def parse_strictly(content: bytes, kind: str) -> tuple | None:
    """(X, Y) of XMC or (X, None) of split text, by regular expressions and the slow twin; None: it is not right."""
    text = content.removeprefix(b"\xef\xbb\xbf")
    header, _, body = text.partition(b"\n")
    sizes = header.split()
    if len(sizes) != (3 if kind == "xmc" else 2) or not all(re.fullmatch(rb"\d{1,15}", size) for size in sizes):
        return None
    n_rows, n_features, n_labels = ([int(size) for size in sizes] + [0])[:3]
    lines = body.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    if len(lines) != n_rows or max(n_features, n_labels) > 2**31 - 1:
        return None
    labels = rb"(?P<labels>\d{1,18}(,\d{1,18})*)?" if kind == "xmc" else rb""
    row = re.compile(labels + rb"(?P<features>([ \t]+\d{1,18}:" + NUMBER + rb")*)[ \t]*\r?")
    bare = re.compile(rb"(?P<features>\d{1,18}:" + NUMBER + rb"([ \t]+\d{1,18}:" + NUMBER + rb")*)[ \t]*\r?")
    for line in lines:
        match = bare.fullmatch(line) or row.fullmatch(line)
        if match is None:
            return None
        groups = match.groupdict()
        chosen = [int(label) for label in (groups.get("labels") or b"").split(b",") if label]
        pairs = [token.split(b":") for token in groups["features"].split()]
        places = [int(index) for index, _ in pairs]
        if len(set(chosen)) < len(chosen) or any(label >= n_labels for label in chosen):
            return None
        if len(set(places)) < len(places) or any(place >= n_features for place in places):
            return None
        with np.errstate(over="ignore"):
            if not all(np.isfinite(np.float32(float(value))) for _, value in pairs):
                return None
    whole = b"".join(line + b"\n" for line in lines).decode("ascii")
    X, Y = oracles.parse_lines(whole, "xmc" if kind == "xmc" else "sparse", n_features, n_labels)
    return X, Y if kind == "xmc" else None


def main(kind: str, folder: Path, count: int, seed: int = 0) -> dict:
    from xpipe.errors import XpipeError
    from xpipe.formats import read_dataset
    from xpipe.formats.checking import check_folder

    names = mutations.write_folder(kind, folder)
    reading = mutations.READING.get(kind, {})
    whole = read_dataset(str(folder), **reading)
    found: dict = {"tried": 0, "read": 0, "refused": 0, "wrong": []}
    for file_number, name in enumerate(names):
        path = folder / name
        original = path.read_bytes()
        for number, mutation in enumerate(mutations.mutations(original, seed + 1000 * file_number, count)):
            path.write_bytes(mutation.content)
            found["tried"] += 1
            spot = f"{name} {mutation.how} {number}"
            try:
                data = read_dataset(str(folder), **reading)
                found["read"] += 1
                problem = judge(data, whole, name, mutation.content, original)
                if problem:
                    found["wrong"].append(f"{spot}: {problem}")
            except XpipeError as error:
                found["refused"] += 1
                if error.exit_code not in (2, 3, 5):
                    found["wrong"].append(f"{spot}: exit code {error.exit_code}")
                if should_be_read(name, mutation.content):
                    found["wrong"].append(f"{spot}: refused, but right: {error}")
                try:
                    check_folder(str(folder), **reading)
                    found["wrong"].append(f"{spot}: check passes it, reading says {error.what}")
                except XpipeError:
                    pass
            except BaseException as error:
                found["wrong"].append(f"{spot}: {type(error).__name__}: {str(error)[:200]}")
        path.write_bytes(original)
    return found


def main_scores(folder: Path, count: int, seed: int = 0) -> dict:
    """The same for a file of scores: equal to what was written, or refused."""
    from xpipe.errors import XpipeError
    from xpipe.metrics.score_files import read_scores

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "scores.parquet"
    mutations.write_scores(path)
    original = path.read_bytes()
    whole = read_scores(str(path), mutations.N_LABELS)
    found: dict = {"tried": 0, "read": 0, "refused": 0, "wrong": []}
    for number, mutation in enumerate(mutations.mutations(original, seed, count)):
        path.write_bytes(mutation.content)
        found["tried"] += 1
        try:
            scores = read_scores(str(path), mutations.N_LABELS)
            found["read"] += 1
            if scores.shape[1] != whole.shape[1] or not np.isfinite(scores.data).all():
                found["wrong"].append(f"{mutation.how} {number}: not sound")
        except XpipeError as error:
            found["refused"] += 1
            if error.exit_code not in (2, 3, 5):
                found["wrong"].append(f"{mutation.how} {number}: exit code {error.exit_code}")
        except BaseException as error:
            found["wrong"].append(f"{mutation.how} {number}: {type(error).__name__}: {str(error)[:200]}")
    return found


def should_be_read(name: str, content: bytes) -> bool:
    """Whether a split text that fits its folder was refused all the same (only where other files do not decide)."""
    if name not in ("trn_X_Xf.txt", "train.txt"):
        return False
    twin = parse_strictly(content, "xmc" if name == "train.txt" else "split")
    expected = mutations.matrices()
    return (
        twin is not None
        and twin[0].shape == expected["X"].shape
        and (twin[1] is None or twin[1].shape == expected["Y"].shape)
    )


def judge(data, whole, name: str, content: bytes, original: bytes) -> str:
    """What is wrong with what was read from a mutated folder ("" where nothing is)."""
    if name.endswith((".npz", ".parquet", ".json", ".svm")):
        return sane(data, whole)
    text = content
    if name.endswith(".gz"):
        try:
            text = gzip.decompress(content)
        except Exception:
            return "broken gzip was read"
    stem = name.removesuffix(".gz")
    if stem in ("train.txt", "trn_X_Xf.txt"):
        twin = parse_strictly(text, "xmc" if stem == "train.txt" else "split")
        if twin is None:
            return "the twin refuses it"
        for found, wanted in ((data.train.X, twin[0]), (data.train.Y, twin[1])):
            if wanted is not None:
                oracles.assert_same(found, wanted)
        return ""
    if stem == "labels.txt":
        lines = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        lines = lines[:-1] if lines[-1] == b"" else lines
        names = [line.removesuffix(b"\r").decode() for line in lines]
        same = names == data.label_names.names or data.label_names.ids is not None
        return "" if same else "other names"
    return sane(data, whole)


def sane(data, whole) -> str:
    """The same shape and sound arrays: what checksums do not guard may differ, but never point anywhere."""
    for name, split in data.splits.items():
        for key in ("X", "Y", "Y1", "Y2"):
            matrix = getattr(split, key)
            if matrix is None:
                continue
            if not np.isfinite(matrix.data).all() or (np.diff(matrix.indptr) < 0).any():
                return f"{key} of {name} is not sound"
            if matrix.nnz and not 0 <= matrix.indices.min() <= matrix.indices.max() < matrix.shape[1]:
                return f"{key} of {name} points outside"
        if split.Y is not None and split.Y.shape[0] != split.X.shape[0]:
            return f"rows of {name} do not fit"
    return ""


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    arguments = sys.argv[1:]
    place, numbers = Path(arguments[1]) / arguments[0], list(map(int, arguments[2:]))
    result = main_scores(place, *numbers) if arguments[0] == "scores" else main(arguments[0], place, *numbers)
    print(json.dumps(result))
