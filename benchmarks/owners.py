"""What are labels worth that were known for groups only? Datasets x groupings x methods x seeds, in one table.

    python benchmarks/owners.py FOLDER [FOLDER ...] [--groups random:4,random:10,given,kmeans:8,kmeans:10]
                                [--seeds 0,1,2] [--methods auto,oracle,...] [--keep cells.jsonl] [--markdown]
                                [--no-trees]

Per dataset, grouping, method and seed: F1 of the owners that `impute` finds against the true labels, and P@1/3/5 of one
tree that is trained on them, on the test rows. Beside them the oracle: a tree on the true labels. The gap closed is how
far P@5 is on the way from the baseline to the oracle. FOLDER: any that `xpipe run` reads, with labels of single rows;
without one, the generated stand-in of EURLex-4K. Groups are `random:SIZE`, `kmeans:DEPTH`, `given` (the file
train_groups.txt of the folder; folders without it are left out) and `copies:SIZE` (each row so many times, every copy
without a random fifth of its words: groups whose members really share all their labels). Rows have length 1, as in a
pipeline. With --keep, cells that the file has are not measured again: the same command goes on where it stopped. Cells
of `discriminative` and `auto` carry the version of stage assign, and are measured again where it has changed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import named_figures
import numpy as np
import scipy.sparse as sp

from xpipe.eagle.options import Method

if TYPE_CHECKING:
    from xpipe.eagle.imputation import Imputed

METHODS: tuple[Method, ...] = ("baseline", "eagle0", "eagle", "centred", "discriminative")
GROUPS = "random:4,random:10,given,kmeans:8,kmeans:10"
COLUMNS = ("oracle", *METHODS, "auto")  # of cells
VERSIONED = ("discriminative", "auto")  # the other methods are to stay as they are
KS = (1, 3, 5)
LOST = 0.2  # share of its words that a copy goes without
MARGINS = {"f1": 0.01, "p1": 0.5}  # how far `auto` may be below the best method


@dataclass(frozen=True)
class Cell:
    """What one method was worth on one grouping of one dataset."""

    data: str
    groups: str
    seed: int
    method: str  # "oracle": the true labels
    f1: float
    precisions: tuple[float, ...]  # P@1, P@3, P@5 in percent; nothing without trees
    seconds: float  # of impute; of a method that auto took: with all that auto tried
    taken: str  # the method that auto took
    why: dict[str, Any] = field(default_factory=dict)  # the figures behind the choice of auto
    version: int = 0  # of stage assign, for methods that change with it

    @property
    def row(self) -> tuple[str, str]:
        return self.data, self.groups

    @property
    def name(self) -> tuple[str, str, int, str]:
        return self.data, self.groups, self.seed, self.method


class Problem(NamedTuple):
    """Training rows with true labels and groups, and test rows."""

    X: sp.csr_matrix
    Y: sp.csr_matrix
    Y1: sp.csr_matrix
    Y2: sp.csr_matrix
    X_test: sp.csr_matrix | None
    Y_test: sp.csr_matrix | None


@cache
def read_rows(folder: str) -> tuple[sp.csr_matrix | None, ...]:
    """(X, Y, X_test, Y_test) of a folder, rows of length 1."""
    from xpipe.formats import read_dataset

    data = read_dataset(folder)
    if data.train is None or data.train.Y is None:
        raise SystemExit(f"{folder}: no training rows with labels of their own")
    test = data.test
    with_test = (scale_rows(test.X), test.Y) if test is not None and test.Y is not None else (None, None)
    return scale_rows(data.train.X), data.train.Y, *with_test


def scale_rows(X: sp.csr_matrix) -> sp.csr_matrix:
    """Rows of length 1; empty rows stay empty."""
    length = np.sqrt(np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64)).ravel()
    return sp.csr_matrix(sp.diags(1 / np.where(length > 0, length, 1)) @ X, dtype=np.float32)


def make_stand_in(folder: str) -> str:
    from xpipe.synth import synthesize

    synthesize("eurlex-4k", folder, seed=0)
    return folder


def copy_rows(X: sp.csr_matrix, Y: sp.csr_matrix, times: int, seed: int) -> tuple[sp.csr_matrix, ...]:
    """(X, Y, Y1, Y2): every row `times` times, each copy without a random share of its words."""
    copies = sp.csr_matrix(X[np.repeat(np.arange(X.shape[0]), times)])
    copies.data[np.random.default_rng(seed).random(copies.nnz) < LOST] = 0
    copies.eliminate_zeros()
    n = copies.shape[0]
    membership = sp.csr_matrix(
        (np.ones(n, dtype=np.float32), np.arange(n) // times, np.arange(n + 1)), shape=(n, X.shape[0])
    )
    return scale_rows(copies), sp.csr_matrix(Y[np.repeat(np.arange(X.shape[0]), times)]), membership, Y


def make_problem(folder: str, groups: str, seed: int) -> Problem | None:
    """One grouping of a dataset; None where groups are to be given and are not."""
    from xpipe import grouping
    from xpipe.formats import read_membership

    X, Y, *test = read_rows(folder)
    rule, _, number = groups.partition(":")
    if rule == "random":
        return Problem(X, Y, *grouping.random_groups(Y, int(number), seed), *test)
    if rule == "kmeans":
        return Problem(X, Y, *grouping.kmeans_groups(X, Y, int(number), seed), *test)
    if rule == "given":
        path = Path(folder) / "train_groups.txt"
        if not path.exists():
            return None
        return Problem(X, Y, *grouping.given_groups(read_membership(str(path), n_rows=X.shape[0]), Y), *test)
    if rule == "copies":
        return Problem(*copy_rows(X, Y, int(number), seed), *test)
    raise SystemExit(f"--groups {groups}: random:SIZE, kmeans:DEPTH, given or copies:SIZE")


def f1(found: sp.csr_matrix, truth: sp.csr_matrix) -> float:
    common = found.astype(bool).multiply(truth.astype(bool)).nnz
    return 2 * common / max(found.nnz + truth.nnz, 1)


def precisions(problem: Problem, labels: sp.csr_matrix, scores: sp.csr_matrix | None) -> tuple[float, ...]:
    """P@1/3/5 of one tree that is trained on labels, in percent."""
    from xpipe.metrics import precision
    from xpipe.trees import LabelTree

    tree = LabelTree(n_trees=1, seed=0, calibrate="none").fit(problem.X, labels, label_scores=scores)
    found = precision(tree.predict(problem.X_test, k=max(KS)), problem.Y_test, k=max(KS))
    return tuple(round(100 * float(found[k - 1]), 2) for k in KS)


def measure(problem: Problem, name: tuple[str, str, int], wanted: set[str], *, trees: bool) -> Iterator[Cell]:
    """The wanted cells of one grouping. `auto` is the method that it takes: it has no owners of its own."""
    from xpipe.eagle import impute

    def worth(found: Imputed) -> tuple[float, ...]:
        soft = found.soft_labels if found.trace["method"] == "discriminative" else None
        return precisions(problem, found.labels if soft is None else soft, soft) if trees else ()

    def timed(method: Method) -> tuple[Imputed, float]:
        start = time.perf_counter()
        found = impute(problem.X, problem.Y1, problem.Y2, method=method, seed=name[2])
        return found, round(time.perf_counter() - start, 2)

    trees = trees and problem.X_test is not None
    if trees and "oracle" in wanted:
        yield Cell(*name, "oracle", 1.0, precisions(problem, problem.Y, None), 0.0, "")
    chosen, seconds_of_auto, taken = None, 0.0, ""
    if wanted & set(VERSIONED):
        chosen, seconds_of_auto = timed("auto")
        taken = chosen.trace["method"]
    for method in (method for method in METHODS if method in wanted):
        found, seconds = (chosen, seconds_of_auto) if chosen is not None and method == taken else timed(method)
        version = version_of(method)
        yield Cell(*name, method, round(f1(found.labels, problem.Y), 5), worth(found), seconds, "", version=version)
    if chosen is not None and "auto" in wanted:
        tried, quality = chosen.trace["choice"]["tried"], round(f1(chosen.labels, problem.Y), 5)
        yield Cell(*name, "auto", quality, (), seconds_of_auto, taken, tried, version_of("auto"))


def version_of(method: str) -> int:
    """The version of stage assign, for methods that change with it."""
    from xpipe.stages.assign.stage import STAGE

    return STAGE.version if method in VERSIONED else 0


def kept_cells(path: Path | None) -> list[Cell]:
    if path is None or not path.exists():
        return []
    cells = [json.loads(line) for line in path.read_text().splitlines()]
    return [Cell(**{**cell, "precisions": tuple(cell["precisions"])}) for cell in cells]


def all_cells(options: argparse.Namespace, folders: list[str]) -> list[Cell]:
    """Measure what is not kept, seed after seed, and keep it at once."""
    cells = {cell.name: cell for cell in kept_cells(options.keep) if cell.version == version_of(cell.method)}
    for seed in map(int, options.seeds.split(",")):
        for folder in folders:
            for groups in options.groups.split(","):
                name = (Path(folder).name if options.folders else "SYNTHETIC eurlex-4k", groups, seed)
                wanted = {method for method in options.methods.split(",") if (*name, method) not in cells}
                if not wanted or (problem := make_problem(folder, groups, seed)) is None:
                    continue
                for cell in measure(problem, name, wanted, trees=options.trees):
                    cells[cell.name] = cell
                    print(json.dumps(asdict(cell)), file=sys.stderr, flush=True)
                    if options.keep is not None:
                        with options.keep.open("a") as stream:
                            print(json.dumps(asdict(cell)), file=stream)
    shown = options.groups.split(","), {Path(folder).name for folder in options.folders}
    return [cell for cell in cells.values() if cell.groups in shown[0] and (cell.data in shown[1] or not shown[1])]


def spoken(values: list[float], digits: int) -> str:
    """The mean, and the spread (largest minus smallest) where there are several."""
    spread = f" ±{(max(values) - min(values)) / 2:.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"


def columns_of(cells: list[Cell], row: tuple[str, str], method: str) -> list[str]:
    """[F1, P@1, P@3, P@5, gap closed] of a method on a row of the table, over seeds."""
    mine = [cell for cell in cells if cell.row == row and cell.method == method]
    columns = [spoken([cell.f1 for cell in mine], 3)] if mine else ["-"]
    if not mine or not mine[0].precisions:
        return [*columns, "-", "-", "-", "-"]
    columns += [spoken([cell.precisions[at] for cell in mine], 1) for at in range(len(KS))]
    worth = {(cell.seed, cell.method): cell.precisions[-1] for cell in cells if cell.row == row and cell.precisions}
    gaps = []
    for cell in mine:
        lowest, highest = worth[cell.seed, "baseline"], worth[cell.seed, "oracle"]
        if highest - lowest >= 0.5:  # otherwise there is nothing to close
            gaps.append(100 * (cell.precisions[-1] - lowest) / (highest - lowest))
    return [*columns, spoken(gaps, 0) if gaps else "-"]


def losses_of_auto(cells: list[Cell], row: tuple[str, str]) -> tuple[str, dict[str, float]]:
    """(what auto took, per seed; how far it is below the best method, mean over seeds, by figure)."""
    mine = {(cell.seed, cell.method): cell for cell in cells if cell.row == row}
    seeds = sorted({seed for seed, _ in mine if all((seed, method) in mine for method in (*METHODS, "auto"))})
    lost: dict[str, list[float]] = {"f1": [], "p1": []}
    for seed in seeds:
        taken = mine[seed, mine[seed, "auto"].taken]
        lost["f1"].append(max(mine[seed, method].f1 for method in METHODS) - taken.f1)
        if taken.precisions:
            lost["p1"].append(max(mine[seed, method].precisions[0] for method in METHODS) - taken.precisions[0])
    took = ", ".join(dict.fromkeys(mine[seed, "auto"].taken for seed in seeds))
    return took, {name: float(np.mean(values)) for name, values in lost.items() if values}


def table_rows(cells: list[Cell]) -> Iterator[list[str]]:
    for row in dict.fromkeys(cell.row for cell in cells):
        methods = [method for method in ("oracle", *METHODS) if any(c.row == row and c.method == method for c in cells)]
        for method in methods:
            yield [*row, method, *columns_of(cells, row, method)]
        took, lost = losses_of_auto(cells, row)
        if not lost:
            continue
        within = all(value <= MARGINS[name] for name, value in lost.items())
        spoken_losses = f"F1 -{lost['f1']:.3f}" + (f", P@1 -{lost['p1']:.1f}" if "p1" in lost else "")
        yield [*row, f"auto: {took}", spoken_losses, "", "", "", "within" if within else "**below**"]


def record(cells: list[Cell]) -> None:
    """Means over the seeds, and how far `auto` is below the best method."""
    worth = {(cell.row, cell.seed, cell.method): cell.precisions for cell in cells}
    for row in dict.fromkeys(cell.row for cell in cells):
        where = ", ".join(row)
        for method in dict.fromkeys(cell.method for cell in cells if cell.row == row and cell.method != "auto"):
            mine = [cell for cell in cells if cell.row == row and cell.method == method]
            named_figures.record(f"{where}, {method}: F1", np.mean([cell.f1 for cell in mine]))
            if mine[0].precisions:
                means = np.mean([worth[row, cell.seed, method] for cell in mine], axis=0)
                for k, mean in zip(KS, means, strict=True):
                    named_figures.record(f"{where}, {method}: P@{k}", mean)
        for name, lost in losses_of_auto(cells, row)[1].items():
            named_figures.record(f"{where}, auto below the best: {name.upper().replace('P1', 'P@1')}", lost)


def show(cells: list[Cell]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("data", "groups", "method", "F1", *(f"P@{k}" for k in KS), "gap closed, %")
    for row in table_rows(cells):
        table.add_row(*row, end_section=row[2].startswith("auto"))
    Console(width=150).print(table)


def print_markdown(cells: list[Cell]) -> None:
    """Two tables with one line per grouping: F1 of owners, and what trees are worth."""
    seeds = {row: len({cell.seed for cell in cells if cell.row == row}) for row in dict.fromkeys(c.row for c in cells)}
    print("| F1 | groups | seeds | " + " | ".join(METHODS) + " | auto takes | below the best |\n" + "|---" * 10 + "|")
    for row, n_seeds in seeds.items():
        found = [columns_of(cells, row, method)[0] for method in METHODS]
        took, lost = losses_of_auto(cells, row)
        below = ", ".join(
            f"{'F1' if name == 'f1' else 'P@1'} {value:.{3 if name == 'f1' else 1}f}" for name, value in lost.items()
        )
        print(f"| {row[0]} | {row[1]} | {n_seeds} | " + " | ".join(found) + f" | {took} | {below} |")
    methods = ("oracle", *METHODS)
    print("\n| P@1 / P@3 / P@5 | groups | " + " | ".join(methods) + " | gap closed, % |\n" + "|---" * 9 + "|")
    for row in seeds:
        found = [" / ".join(columns_of(cells, row, method)[1:4]) for method in methods]
        closed = columns_of(cells, row, "discriminative")[4]
        print(f"| {row[0]} | {row[1]} | " + " | ".join(found) + f" | {closed} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", metavar="FOLDER")
    parser.add_argument("--groups", default=GROUPS)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--methods", default=",".join(COLUMNS), help="columns to measure; those kept are shown as well")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--no-trees", dest="trees", action="store_false")
    named_figures.add_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="xpipe-owners-") as scratch:
        cells = all_cells(options, options.folders or [make_stand_in(scratch)])
    record(cells)
    named_figures.write(options.json)
    print_markdown(cells) if options.markdown else show(cells)
    return 0


if __name__ == "__main__":
    sys.exit(main())
