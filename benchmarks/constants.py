"""Would other datasets have chosen the constants of `discriminative`? One dataset is left out at a time.

    python benchmarks/constants.py CONSTANT FOLDER FOLDER [...]
                                   [--groups random:4,random:10] [--seeds 0] [--keep cells.jsonl]

CONSTANT: `candidates` (how much recall counts beside precision when candidates are chosen, members of groups not
alike), `candidates-alike` (the same where members are alike; groups should be kmeans or given), `ridge-alike` (how much
worse held-out groups may be predicted by a lower ridge; kmeans or given as well), `rank`, `rounds`. Every value of the
constant is tried on every dataset and grouping: owners by `impute`, one tree on them, P@1/3/5 on the test
rows, each as a share of the tree on true labels. For each dataset, the others choose the value with the highest mean.
The table says which, and how much of P@k the left-out dataset loses by it beside its own best value; the same for the
value that xpipe has. FOLDER and groups are those of `owners.py`. With --keep, cells that the file has of this version
of stage assign are not measured again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import named_figures
import numpy as np
from owners import f1, make_problem, precisions, version_of

from xpipe.eagle import choice, options, ridge

GROUPS = "random:4,random:10"


@dataclass(frozen=True)
class Constant:
    """A constant, the values that are tried, and the one that xpipe has."""

    values: tuple[float, ...]
    shipped: float
    attribute: str = ""  # of `eagle.choice` or `eagle.ridge`; empty: an option of `impute`


CONSTANTS = {
    "candidates": Constant((1.0, 2.0, 4.0, 9.0), choice.CANDIDATE_RECALL, "CANDIDATE_RECALL"),
    "candidates-alike": Constant((1.0, 4.0, 9.0, 16.0), choice.CANDIDATE_RECALL_ALIKE, "CANDIDATE_RECALL_ALIKE"),
    "ridge-alike": Constant((0.005, 0.01, 0.02), ridge.NEARLY_AS_WELL, "NEARLY_AS_WELL"),
    "rank": Constant((256, 512, 1024), options.RANK),
    "rounds": Constant((5, 10, 20), options.ImputeOptions.rounds),
}


@dataclass(frozen=True)
class Cell:
    """What one value of a constant was worth; value None: the true labels."""

    constant: str
    data: str
    groups: str
    seed: int
    value: float | None
    f1: float
    precisions: tuple[float, ...]  # P@1, P@3, P@5 in percent
    version: int  # of stage assign; 0 for the true labels

    @property
    def name(self) -> tuple[str, str, str, int, float | None]:
        return self.constant, self.data, self.groups, self.seed, self.value

    @property
    def is_current(self) -> bool:
        return self.version == (0 if self.value is None else version_of("discriminative"))


@contextmanager
def with_value(constant: Constant, name: str, value: float) -> Iterator[dict[str, Any]]:
    """Set a constant; gives the options of `impute` that it is, if it is one."""
    if not constant.attribute:
        yield {name: int(value)}
        return
    with mock.patch.object(ridge if hasattr(ridge, constant.attribute) else choice, constant.attribute, value):
        yield {}


def kept_cells(path: Path | None) -> list[Cell]:
    if path is None or not path.exists():
        return []
    cells = [json.loads(line) for line in path.read_text().splitlines()]
    return [Cell(**{**cell, "precisions": tuple(cell["precisions"])}) for cell in cells]


def measure(arguments: argparse.Namespace) -> list[Cell]:
    """All cells; those that are not kept are measured, and kept at once."""
    from xpipe.eagle import impute

    constant = CONSTANTS[arguments.constant]
    cells = [cell for cell in kept_cells(arguments.keep) if cell.is_current]
    known = {cell.name for cell in cells}
    oracles = {cell.name[1:]: cell for cell in cells if cell.value is None}  # the same for every constant
    for folder in arguments.folders:
        for groups in arguments.groups.split(","):
            for seed in map(int, arguments.seeds.split(",")):
                problem = make_problem(folder, groups, seed)
                if problem is None:
                    continue
                for value in (None, *constant.values):
                    name = (arguments.constant, Path(folder).name, groups, seed, value)
                    if name in known:
                        continue
                    if value is None:
                        oracle = oracles.get(name[1:])
                        found = oracle.precisions if oracle else precisions(problem, problem.Y, None)
                        cell = Cell(*name, 1.0, found, 0)
                    else:
                        with with_value(constant, arguments.constant, value) as given:
                            owners = impute(
                                problem.X, problem.Y1, problem.Y2, method="discriminative", seed=seed, **given
                            )
                        soft, quality = owners.soft_labels, round(f1(owners.labels, problem.Y), 5)
                        cell = Cell(*name, quality, precisions(problem, soft, soft), version_of("discriminative"))
                    cells.append(cell)
                    print(json.dumps(asdict(cell)), file=sys.stderr, flush=True)
                    if arguments.keep is not None:
                        with arguments.keep.open("a") as stream:
                            print(json.dumps(asdict(cell)), file=stream)
    wanted = {Path(folder).name for folder in arguments.folders}, set(arguments.groups.split(","))
    seeds = set(map(int, arguments.seeds.split(",")))
    mine = [cell for cell in cells if cell.constant == arguments.constant and cell.seed in seeds]
    return [cell for cell in mine if cell.data in wanted[0] and cell.groups in wanted[1]]


def worth_of(cells: list[Cell]) -> dict[str, dict[float, float]]:
    """Per dataset and value: P@k in % of that of the tree on true labels, mean over k, groupings and seeds."""
    oracle = {(cell.data, cell.groups, cell.seed): cell.precisions for cell in cells if cell.value is None}
    found: dict[str, dict[float, list[float]]] = {}
    for cell in cells:
        if cell.value is not None:
            share = np.mean(np.array(cell.precisions) / np.array(oracle[cell.data, cell.groups, cell.seed]))
            found.setdefault(cell.data, {}).setdefault(cell.value, []).append(100 * float(share))
    return {data: {value: float(np.mean(each)) for value, each in values.items()} for data, values in found.items()}


def show(arguments: argparse.Namespace, cells: list[Cell]) -> None:
    constant, worth = CONSTANTS[arguments.constant], worth_of(cells)
    print(f"`{arguments.constant}`, shipped {constant.shipped:g}; groups {arguments.groups}, seeds {arguments.seeds}")
    print(
        "P@1/3/5 in % of the tree on true labels, mean; then the value that the other datasets choose, what is lost by"
    )
    print("by it, and by the shipped value\n")
    print("| data | " + " | ".join(f"{value:g}" for value in constant.values) + " | chosen | lost | lost as shipped |")
    print("|---" * (4 + len(constant.values)) + "|")
    for data, own in worth.items():
        others = [values for name, values in worth.items() if name != data]
        means = {value: np.mean([values[value] for values in others]) for value in constant.values} if others else own
        chosen = max(constant.values, key=lambda value: means[value])
        best = max(own.values())
        shown = " | ".join(f"{own[value]:.2f}" for value in constant.values)
        for value, share in own.items():
            named_figures.record(f"{data}: P@1/3/5 at {value:g}", share)
        named_figures.record(f"{data}: lost as shipped", best - own[constant.shipped])
        print(f"| {data} | {shown} | {chosen:g} | {best - own[chosen]:.2f} | {best - own[constant.shipped]:.2f} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("constant", choices=CONSTANTS)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--groups", default=GROUPS)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--keep", type=Path)
    named_figures.add_option(parser)
    arguments = parser.parse_args()
    show(arguments, measure(arguments))
    named_figures.write(arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
