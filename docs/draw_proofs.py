"""Draws the pictures of guides/proofs.md: images/proofs_retrieval.svg, proofs_tokens.svg and proofs_relu.svg.

    python docs/draw_proofs.py

The first is the table of `benchmarks/proofs.py limit` as results.md has it: after a new run, put its table there. The
others are verdicts on a few rows of two inputs, which are made here.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np

from xpipe.argmaxability import explain, verify

HERE = Path(__file__).parent
FONT = 'font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#333"'
COLOURS = ("#3b6ea5", "#5a9a68", "#b8860b", "#8a5a9a", "#4a8f9f", "#a0522d", "#6b6b6b")
RED = "#c0392b"


def shares() -> tuple[list[int], list[float], dict[int, float]]:
    """(dimensions, percent of impossible pairs of random rows, percent of DFT rows by dimension)."""
    text = (HERE / "results.md").read_text(encoding="utf-8")
    found = re.search(r"`python benchmarks/proofs.py limit`.*?\n\n(\|.*?)\n\n", text, re.DOTALL)
    assert found is not None, "results.md has no table of `benchmarks/proofs.py limit`"
    rows = [[cell.strip().rstrip(" %") for cell in line.strip("|").split("|")] for line in found[1].splitlines()]
    rows = [cells for cells in rows if cells[0].isdigit()]
    fixed = {int(cells[0]): float(cells[3]) for cells in rows if cells[3]}
    return [int(cells[0]) for cells in rows], [float(cells[1]) for cells in rows], fixed


def write(name: str, width: int, height: int, parts: list[str]) -> None:
    """An image of these parts on white."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
    body = "\n".join([f"{head}{FONT}>", f'<rect width="{width}" height="{height}" fill="#fff"/>', *parts, "</svg>", ""])
    (HERE / "images" / name).write_text(body, encoding="utf-8")


def text(x: float, y: float, words: str, *, anchor: str = "middle", fill: str = "#333", bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}"{weight}>{words}</text>'


def draw_retrieval() -> None:
    dimensions, random, fixed = shares()
    left, top, wide, high = 70, 40, 520, 240

    def place(d: float, percent: float) -> tuple[float, float]:
        return left + (d - 2) / (max(dimensions) - 2) * wide, top + high * (1 - percent / 100)

    parts = [
        text(
            left + wide / 2, 22, "every pair of 46 documents: share that no query can retrieve as its top 2", bold=True
        )
    ]
    for percent in (0, 25, 50, 75, 100):
        y = place(2, percent)[1]
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + wide}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(text(left - 8, y + 4, f"{percent} %", anchor="end"))
    for d in dimensions[::2]:
        parts.append(text(place(d, 0)[0], top + high + 18, str(d)))
    parts.append(text(left + wide / 2, top + high + 38, "dimensions of the embeddings"))
    for points, colour, words, at in (
        (list(zip(dimensions, random, strict=True)), RED, "random unit rows", (6.2, 42)),
        (sorted(fixed.items()), COLOURS[0], "rows of dft_matrix: none from 2k + 1 = 5 on", (7.6, 28)),
    ):
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, y in (place(*point) for point in points):
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
        x, y = place(*at)
        parts.append(text(x, y, words, anchor="start", fill=colour))
    write("proofs_retrieval.svg", 630, 340, parts)


def draw_tokens() -> None:
    rng = np.random.default_rng(5)
    angles = 2 * np.pi * (np.arange(8) + 0.3 * rng.random(8)) / 8
    around = np.column_stack([np.cos(angles), np.sin(angles)]) * (0.95 + 0.1 * rng.random((8, 1)))
    W = np.vstack([around, [[0.25, 0.3], [-0.45, -0.1]]])
    verdicts = verify(W, mode="argmax")
    inside = np.flatnonzero(verdicts.status == "unargmaxable")
    conflict = explain(W, None, verdicts, int(inside[-1]), noun="token")

    def place(row: np.ndarray) -> tuple[float, float]:
        return 200 + 150 * row[0], 200 - 150 * row[1]

    border = [label for label in np.argsort(np.arctan2(W[:, 1], W[:, 0])) if label not in inside]
    hull = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(W[label]) for label in border))
    few = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(W[label]) for label in conflict.labels[~conflict.positive]))
    parts = [
        text(200, 22, "rows of an output layer: tokens as points", bold=True),
        f'<polygon points="{hull}" fill="#eef3f8" stroke="{COLOURS[0]}"/>',
        f'<polygon points="{few}" fill="#f8e6e3" stroke="{RED}" stroke-dasharray="4 3"/>',
    ]
    for label, row in enumerate(W):
        x, y = place(row)
        colour = RED if label in inside else COLOURS[0]
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>')
        parts.append(text(x + 9, y - 6, str(label), anchor="start", fill=colour))
    names = ", ".join(str(label) for label in inside)
    parts.append(text(200, 385, f"red: inside the hull of others, so never the argmax ({names})", fill=RED))
    parts.append(text(200, 402, str(conflict), fill=RED))
    write("proofs_tokens.svg", 400, 415, parts)


def draw_relu() -> None:
    angles = np.array([0.12, 0.62, 1.35, 2.3, 3.3, 4.2, 5.3])
    W = np.column_stack([np.cos(angles), np.sin(angles)])
    parts = []
    for number, (inputs, title) in enumerate((("any", "inputs of any sign"), ("nonnegative", "inputs behind a ReLU"))):
        argmaxable = verify(W, mode="argmax", inputs=inputs).argmaxable
        cx, cy, radius = 150 + 300 * number, 180, 115
        parts.append(text(cx, 22, title, bold=True))
        turns = np.linspace(0, 2 * np.pi if inputs == "any" else np.pi / 2, 721)
        winners = np.argmax(np.column_stack([np.cos(turns), np.sin(turns)]) @ W.T, axis=1)
        cuts = np.concatenate([[0], np.flatnonzero(np.diff(winners)) + 1, [len(turns) - 1]])
        for begin, end in itertools.pairwise(cuts):
            (x0, y0), (x1, y1) = (
                (cx + radius * np.cos(turns[i]), cy - radius * np.sin(turns[i])) for i in (begin, end)
            )
            path = f"M{cx},{cy} L{x0:.1f},{y0:.1f} A{radius},{radius} 0 0 0 {x1:.1f},{y1:.1f} Z"
            parts.append(f'<path d="{path}" fill="{COLOURS[winners[begin]]}" fill-opacity="0.35" stroke="#fff"/>')
        for label, row in enumerate(W):
            x, y = cx + 100 * row[0], cy - 100 * row[1]
            colour = COLOURS[label] if argmaxable[label] else RED
            parts.append(f'<line x1="{cx}" y1="{cy}" x2="{x:.1f}" y2="{y:.1f}" stroke="{colour}" stroke-width="2"/>')
            parts.append(text(cx + 130 * row[0], cy - 130 * row[1] + 4, str(label), fill=colour, bold=True))
        never = ", ".join(map(str, np.flatnonzero(~argmaxable))) or "none"
        parts.append(text(cx, 335, f"never the argmax: {never}", fill=RED if not argmaxable.all() else "#333"))
    write("proofs_relu.svg", 600, 350, parts)


if __name__ == "__main__":
    draw_retrieval()
    draw_tokens()
    draw_relu()
