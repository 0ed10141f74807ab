"""How many rounds over their rows do the classifiers of a tree need?

    python benchmarks/rounds.py FOLDER [FOLDER ...] [--rounds 100,20,15,10] [--seeds 0,1,2]

Trains one tree with each limit and seed on train.txt of every folder. Prints P@1/3/5 on test.txt, mean of the seeds,
and the mean seconds of training on all cores.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import named_figures
import numpy as np

ROUNDS = "100,20,15,10"
SEEDS = "0,1,2"


def main() -> None:
    from rich.console import Console
    from rich.table import Table

    from xpipe.formats import read_xmc
    from xpipe.metrics import precision
    from xpipe.trees import LabelTree

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--rounds", default=ROUNDS)
    parser.add_argument("--seeds", default=SEEDS)
    named_figures.add_option(parser)
    options = parser.parse_args()
    rounds, seeds = (list(map(int, given.split(","))) for given in (options.rounds, options.seeds))
    table = Table("data", *(f"{number} rounds" for number in rounds))
    for folder in options.folders:
        X, Y = read_xmc(os.path.join(folder, "train.txt"))
        X_test, Y_test = read_xmc(os.path.join(folder, "test.txt"))
        cells = []
        for number in rounds:
            found, seconds = [], []
            for seed in seeds:
                started = time.perf_counter()
                tree = LabelTree(n_trees=1, seed=seed, max_rounds=number).fit(X, Y)
                seconds.append(time.perf_counter() - started)
                scores = tree.predict(X_test, k=5)
                scores.resize(Y_test.shape)
                found.append(np.asarray(precision(scores, Y_test, 5))[[0, 2, 4]])
            means = 100 * np.mean(found, axis=0)
            for k, mean in zip((1, 3, 5), means, strict=True):
                named_figures.record(f"{Path(folder).resolve().name}, {number} rounds: P@{k}", mean)
            shown = " / ".join(f"{value:.2f}" for value in means)
            cells.append(f"{shown}, {np.mean(seconds):.1f} s")
        table.add_row(Path(folder).resolve().name, *cells)
    Console(width=140).print(table)
    named_figures.write(options.json)


if __name__ == "__main__":
    main()
