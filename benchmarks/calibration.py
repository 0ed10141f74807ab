"""Can the probabilities of the tree and of every head be believed? ECE and ACE of their five best labels.

    python benchmarks/calibration.py [FOLDER ...] [--work DIR] [--picture FILE.svg] [--only tree,bsl]

FOLDER: any that `xpipe run` reads, with training and test rows; without one, the generated stand-in of EURLex-4K. Each
model is trained with the defaults of a pipeline file, on one thread, and measured on the test rows before and after the
map that training fits to held-out rows. Goals: ECE@5 at most 2 %, and P@1, P@3 and P@5 as without calibration, to 0.1.
With --work, datasets and checkpoints of heads are kept there, and the same command continues. --picture draws the
reliability diagrams. Exit code 1 if a goal does not hold.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import named_figures
import numpy as np

TOP, GOAL, SAME = 5, 0.02, 0.001
RANKS = (1, 3, 5)
SIDE, GAP, LEFT, HEAD = (
    96,
    14,
    112,
    46,
)  # of the picture: panels, space between them, names of sets, of models
FEW = 25  # predictions of a bin that is not drawn
COLOURS = {"before": "#d95f02", "after": "#1b6ca8"}


@dataclass
class Measured:
    """One model on one set: metrics and reliability tables before and after calibration."""

    data: str
    model: str
    precision: dict[str, np.ndarray]
    tables: dict[str, object]
    ace: dict[str, float]

    @property
    def holds(self) -> bool:
        moved = np.abs(self.precision["after"] - self.precision["before"])[[rank - 1 for rank in RANKS]]
        return bool(self.tables["after"].ece <= GOAL and moved.max() <= SAME)


def emit(folder: str | None, work: str) -> tuple[str, str, str]:
    """(name, tree/, heads/) of a folder's rows, emitted below `work`."""
    from xpipe import config
    from xpipe.cli.progress import Progress
    from xpipe.engine import execute
    from xpipe.ground import backend

    name = Path(folder).name if folder else "SYNTHETIC eurlex-4k"
    top = os.path.join(work, name.replace(" ", "-"))
    os.makedirs(top, exist_ok=True)
    data = f"dir: {Path(folder).resolve()}" if folder else f"name: eurlex-4k, dir: {top}/data, if_missing: synthesize"
    path = os.path.join(top, "pipeline.yaml")
    Path(path).write_text(
        f"name: calibration\ndata: {{{data}}}\nemit: {{datasets: [tree, heads], formats: [parquet]}}\n"
        f"cluster: none\nout: {top}/out\n"
    )
    with Progress(mode="quiet") as progress:
        execute.run(config.load(path), progress, backend.choose("cpu"))
    return name, os.path.join(top, "out", "tree"), os.path.join(top, "out", "heads")


def measure_both(data: str, model: str, found: dict, truth) -> Measured:
    """Figures of predictions before and after calibration: {"before": (scores to rank by, probabilities), ...}."""
    from xpipe import metrics

    return Measured(
        data, model,
        {when: metrics.precision(ranking, truth, TOP) for when, (ranking, _) in found.items()},
        {when: metrics.reliability(chances, truth, TOP) for when, (_, chances) in found.items()},
        {when: metrics.ace(chances, truth, TOP) for when, (_, chances) in found.items()},
    )  # fmt: skip


def measure_tree(data: str, folder: str) -> Measured:
    from xpipe.formats.parquet import read_split
    from xpipe.ground.sparse_rows import matrix_with_ones
    from xpipe.trees import LabelTree

    X, Y = read_split(folder, "train")
    X_test, Y_test = read_split(folder, "test")
    tree = LabelTree(seed=0).fit(X, matrix_with_ones(Y), threads=1)
    own = LabelTree.of(replace(tree.forest, calibration=None), tree.options)  # that of calibrate="none": tests hold it
    predicted = {when: which.predict(X_test, k=TOP, threads=1) for when, which in (("before", own), ("after", tree))}
    return measure_both(data, "tree", {when: (found, found) for when, found in predicted.items()}, Y_test)


def measure_head(data: str, layer: str, folder: str, work: str) -> Measured:
    from xpipe.formats.parquet import read_about, read_split
    from xpipe.ground.library_threads import one_thread_each
    from xpipe.heads import TrainOptions, matrix_batches, train_head
    from xpipe.heads.device import fixed_threads
    from xpipe.heads.model import as_matrix
    from xpipe.stages.train_heads.params import HeadParams

    X_test, Y_test = read_split(folder, "test")
    options = TrainOptions(**HeadParams(layer=layer).train_options(read_about(folder), 0, "cpu"))
    kept = os.path.join(work, "checkpoints", data.replace(" ", "-"), layer)
    model = train_head(folder, options, checkpoint=kept).model
    found = {}
    with one_thread_each(), fixed_threads(1):
        for when in ("before", "after"):
            ranked = model.rank(matrix_batches(X_test), TOP, calibrated=when == "after")
            chances = as_matrix(ranked.labels, ranked.probabilities, Y_test.shape[1])
            # before, logits rank the labels; after, the calibrated probabilities themselves
            ranking = as_matrix(ranked.labels, ranked.logits, Y_test.shape[1]) if when == "before" else chances
            found[when] = ranking, chances
    return measure_both(data, layer, found, Y_test)


def draw(measured: list[Measured]) -> str:
    """Reliability diagrams as SVG: one row of panels per set, one panel per model."""
    sets, models = (list(dict.fromkeys(getattr(each, name) for each in measured)) for name in ("data", "model"))
    width, height = LEFT + len(models) * (SIDE + GAP), HEAD + len(sets) * (SIDE + GAP) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="11" fill="#333">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for number, model in enumerate(models):
        x = LEFT + number * (SIDE + GAP) + SIDE / 2
        parts.append(f'<text x="{x:g}" y="{HEAD - 8}" text-anchor="middle" font-weight="bold">{model}</text>')
    for row, data in enumerate(sets):
        y = HEAD + row * (SIDE + GAP)
        parts.append(f'<text x="{LEFT - 10}" y="{y + SIDE / 2:g}" text-anchor="end" font-weight="bold">{data}</text>')
        for each in measured:
            if each.data == data:
                parts += draw_panel(each, LEFT + models.index(each.model) * (SIDE + GAP), y)
    parts += draw_legend(width, height)
    return "\n".join([*parts, "</svg>", ""])


def draw_panel(each: Measured, left: float, top: float) -> list[str]:
    """One diagram: accuracy over confidence; the size of a dot is the share of predictions in its bin."""
    parts = [
        f'<rect x="{left}" y="{top}" width="{SIDE}" height="{SIDE}" fill="#f7f7f7" stroke="#bbb"/>',
        f'<line x1="{left}" y1="{top + SIDE}" x2="{left + SIDE}" y2="{top}" stroke="#999" stroke-dasharray="3 3"/>',
    ]
    for when, table in each.tables.items():
        filled = table.count >= FEW  # the others say nothing
        xs, ys = left + SIDE * table.confidence[filled], top + SIDE * (1 - table.accuracy[filled])
        sizes = 1.2 + 4 * np.sqrt(table.count[filled] / table.count.sum())
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[when]}" stroke-width="1.3"/>')
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}" fill="{COLOURS[when]}" fill-opacity="0.75"/>'
            for x, y, size in zip(xs, ys, sizes, strict=True)
        ]
    return parts


def draw_legend(width: float, height: float) -> list[str]:
    """What the axes and colours mean."""
    names = {"before": "own probabilities", "after": "calibrated (default)"}
    parts, x = [], LEFT
    for when, text in names.items():
        parts.append(f'<circle cx="{x + 5}" cy="{height - 16}" r="5" fill="{COLOURS[when]}"/>')
        parts.append(f'<text x="{x + 15}" y="{height - 12}">{text}</text>')
        x += 150
    axes = "across: confidence, up: share that is right, both from 0 to 1"
    parts.append(f'<text x="{width - GAP}" y="{height - 12}" text-anchor="end">{axes}</text>')
    parts.append(f'<text x="{LEFT}" y="16">Five best labels of each test row, in ten bins of confidence</text>')
    return parts


def add_row(table, each: Measured) -> None:
    """One line of the printed table."""
    shown = [f"{100 * each.precision['after'][rank - 1]:.2f}" for rank in RANKS]
    moved = 100 * max(np.abs(each.precision["after"] - each.precision["before"]))
    errors = [f"{100 * each.tables[when].ece:.2f}" for when in ("before", "after")]
    errors += [f"{100 * each.ace[when]:.2f}" for when in ("before", "after")]
    for when in ("before", "after"):
        named_figures.record(f"{each.data}, {each.model}: ECE@5 {when}", 100 * each.tables[when].ece)
    named_figures.record(f"{each.data}, {each.model}: P@1 to P@5 moved", moved)
    table.add_row(each.data, each.model, *shown, f"{moved:.2f}", *errors, "yes" if each.holds else "NO")


def main() -> int:
    from xpipe.heads.registry import HEADS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", metavar="FOLDER")
    parser.add_argument("--work", metavar="DIR")
    parser.add_argument("--picture", metavar="FILE.svg")
    parser.add_argument("--only", default=",".join(["tree", *HEADS]), help="models, by default all")
    named_figures.add_option(parser)
    options = parser.parse_args()
    from rich.console import Console
    from rich.table import Table

    columns = [*(f"P@{rank}" for rank in RANKS), "P moved", "ECE@5 before", "after", "ACE@5 before", "after"]
    table = Table("data", "model", *columns, "holds")
    measured = []
    with tempfile.TemporaryDirectory(prefix="xpipe-calibration-") as scratch:
        work = options.work or scratch
        for folder in options.folders or [None]:
            name, tree, heads = emit(folder, work)
            for model in options.only.split(","):
                each = measure_tree(name, tree) if model == "tree" else measure_head(name, model, heads, work)
                measured.append(each)
                add_row(table, each)
                print(f"{name} {model}: ECE@5 {100 * each.tables['after'].ece:.2f} %", file=sys.stderr, flush=True)
    Console(width=150).print(table)
    named_figures.write(options.json)
    if options.picture:
        Path(options.picture).write_text(draw(measured))
    return 0 if all(each.holds for each in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
