"""Generators of text files and matrices for property tests. Hold no assertions."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

N_FEATURES, N_LABELS = 40, 12


def _near_midpoint(bits: int, above: int) -> str:
    """The decimal expansion of a number at, or a hair off, the midpoint of two float32 neighbours."""
    low = np.array([bits], np.uint32).view(np.float32)[0]
    middle = (float(low) + float(np.nextafter(low, np.float32(np.inf)))) / 2
    text = f"{middle:.120f}".rstrip("0") if middle >= 1e-30 else f"{middle:.160e}"
    if above and "e" not in text:
        text += ("0" * 3 + "1") if above > 0 else ""
    return text


plain = st.floats(0, 2, width=32).map(lambda value: f"{value:.6g}")
shortest = st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda value: repr(float(np.float32(value))))
doubles = st.floats(-3e38, 3e38).map(repr)
subnormals = st.floats(-1e-37, 1e-37).map(repr)
long_digits = st.builds(
    lambda sign, digits, dot, power: (
        f"{sign}{digits[: min(dot, len(digits))]}.{digits[min(dot, len(digits)) :]}" + (f"e{power}" if power else "")
    ),
    st.sampled_from(["", "-", "+"]),
    st.text("0123456789", min_size=1, max_size=25),
    st.integers(0, 25),
    st.integers(-60, 10),
)
midpoints = st.builds(_near_midpoint, st.integers(0x00000001, 0x7F7FFFFE), st.sampled_from([0, 1])).filter(
    lambda text: float(text) < 3.4e38
)
odd = st.sampled_from(
    ["0", "-0", "0.", ".5", "+7", "1e-5", "1E+5", "00012.50", "1e-400", "0e999999999999999999999", "3.4028235e38",
     "-3.4028235677973362e38", "340282356779733623858607532500980858880", "1.401298464324817e-45", "16777217",
     "7.006492321624085e-46", "9007199254740993", "0.000000000000000000000000000000000000011754943508222875",
     "1" + "0" * 38, "0." + "0" * 60 + "1", "123456789012345678901234567890e-20"]
)  # fmt: skip


def finite(text: str) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.isfinite(np.float32(float(text))))


numbers = (plain | shortest | doubles | subnormals | long_digits | midpoints | odd).filter(finite)
gap = st.sampled_from([" ", " ", " ", "\t", "  ", " \t "])


@st.composite
def rows(draw, kind: str, index_base: int = 0, label_base: int = 0) -> str:
    """One line without its end."""
    indices = draw(st.lists(st.integers(0, N_FEATURES - 1), max_size=8, unique=True))
    if draw(st.booleans()):
        indices.sort()
    tokens = [f"{index + index_base}:{draw(numbers)}" for index in indices]
    labels = draw(st.lists(st.integers(0, N_LABELS - 1), max_size=4, unique=True)) if kind != "sparse" else []
    if labels:
        tokens.insert(0, ",".join(str(label + label_base) for label in labels))
    lead = draw(st.sampled_from(["", "", " ", "\t "])) if not labels else ""
    line = lead + "".join(token + draw(gap) for token in tokens)
    if kind == "svmlight" and draw(st.integers(0, 4)) == 0:
        return line + "# a comment 3:4"
    return line if draw(st.booleans()) else line.rstrip(" \t")


@st.composite
def files(draw, kind: str, index_base: int = 0, label_base: int = 0) -> str:
    """Lines of a file without its header; the last may lack its newline."""
    lines = draw(st.lists(rows(kind, index_base, label_base), max_size=7))
    ends = [draw(st.sampled_from(["\n", "\n", "\r\n"])) for _ in lines]
    text = "".join(line + end for line, end in zip(lines, ends, strict=True))
    if lines and lines[-1] and draw(st.booleans()):
        text = text[: -len(ends[-1])]
    return text


@st.composite
def matrices(draw, n_rows: int | None = None, n_columns: int = 9, ones: bool = False) -> sp.csr_matrix:
    """Canonical float32 CSR, with empty rows and explicit zeros."""
    n_rows = draw(st.integers(0, 6)) if n_rows is None else n_rows
    value = st.just(1.0) if ones else st.floats(allow_nan=False, allow_infinity=False, width=32)
    indptr, indices, values = [0], [], []
    for _ in range(n_rows):
        columns = sorted(draw(st.lists(st.integers(0, n_columns - 1), max_size=4, unique=True)))
        indices += columns
        values += [draw(value) for _ in columns]
        indptr.append(len(indices))
    arrays = np.array(values, np.float32), np.array(indices, np.int32), np.array(indptr, np.int32)
    return sp.csr_matrix(arrays, shape=(n_rows, n_columns))
