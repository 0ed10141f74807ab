"""How far does every stage keep more workers busy?

    python benchmarks/workers.py [--set amazoncat-13k] [--share 0.25] [--workers 1,2,4]

Runs the pipeline of `size.py` (read, random groups of four, assign by `auto`, emit, one tree, evaluate) with so many
local workers, each time from the start. Prints the seconds of every stage, and its efficiency: the seconds of one
worker over those of n workers times the cores they had, which are n or all that this machine has.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import named_figures
from size import measure


def main() -> None:
    from rich.console import Console
    from rich.table import Table

    from xpipe.ground.machine import usable_cores

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="amazoncat-13k")
    parser.add_argument("--share", type=float, default=0.25)
    parser.add_argument("--workers", default="1,2,4")
    named_figures.add_option(parser)
    options = parser.parse_args()
    runs = {}
    with tempfile.TemporaryDirectory(prefix="xpipe-workers-") as scratch:
        data = Path(scratch) / "data"
        data.mkdir()
        for n_workers in map(int, options.workers.split(",")):
            work = Path(scratch) / str(n_workers)  # a store of its own
            work.mkdir()
            os.symlink(data, work / "data")
            runs[n_workers] = measure(options.set, options.share, work, "4GiB", n_workers)
    first, *more = runs
    table = Table("stage", *(f"{n} workers" for n in runs), *(f"efficiency of {n}" for n in more))
    table.title = f"SYNTHETIC stand-in of {options.set}, {runs[first].n_rows:,} rows, {usable_cores()} cores"
    for stage in runs[first].stages:
        seconds = {n: run.stages[stage].seconds for n, run in runs.items()}
        share = [seconds[first] / max(seconds[n] * min(n, usable_cores()), 1e-9) for n in more]
        for n, value in zip(more, share, strict=True):
            named_figures.record(f"{stage}: efficiency of {n} workers, %", 100 * value)
        table.add_row(stage, *(f"{value:.1f} s" for value in seconds.values()), *(f"{value:.0%}" for value in share))
    Console(width=120).print(table)
    named_figures.write(options.json)


if __name__ == "__main__":
    main()
