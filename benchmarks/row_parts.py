"""Do nodes that are trained in parts predict as well as nodes that have seen all of their rows?

    python benchmarks/row_parts.py [--rows 300000] [--parts 1,2,4,8]

Trains one tree on so many rows of the stand-in of AmazonCat-13K, with the root (and every node that as many rows reach)
in so many parts, and prints P@1/3/5 on 20,000 test rows and the seconds of training on all cores.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from unittest import mock

import named_figures
import numpy as np
from tree import write_wide

ROWS = 300_000
PARTS = "1,2,4,8"


def main() -> None:
    from rich.console import Console
    from rich.table import Table

    from xpipe.formats import read_xmc
    from xpipe.metrics import precision
    from xpipe.trees import LabelTree, row_parts

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--parts", default=PARTS)
    named_figures.add_option(parser)
    options = parser.parse_args()
    table = Table("parts of the root", "P@1 / P@3 / P@5", "training", title="SYNTHETIC stand-in of AmazonCat-13K")
    with tempfile.TemporaryDirectory(prefix="xpipe-row-parts-") as scratch:
        folder = os.path.join(scratch, "wide")
        write_wide(folder, options.rows)
        X, Y = read_xmc(os.path.join(folder, "train.txt"))
        X_test, Y_test = read_xmc(os.path.join(folder, "test.txt"))
    for n_parts in map(int, options.parts.split(",")):
        with mock.patch.object(row_parts, "ROWS_OF_PART", X.shape[0] // n_parts):
            started = time.perf_counter()
            tree = LabelTree(n_trees=1).fit(X, Y)
            seconds = time.perf_counter() - started
        found = tree.predict(X_test, k=5)
        found.resize(Y_test.shape)
        precisions = 100 * np.asarray(precision(found, Y_test, 5))[[0, 2, 4]]
        for k, value in zip((1, 3, 5), precisions, strict=True):
            named_figures.record(f"root in {n_parts}: P@{k}", value)
        shown = " / ".join(f"{value:.2f}" for value in precisions)
        table.add_row(str(n_parts), shown, f"{seconds:.1f} s")
    Console().print(table)
    named_figures.write(options.json)


if __name__ == "__main__":
    main()
