"""Does a whole pipeline eat data of full size within its memory, and does its cost grow as the data does?

    python benchmarks/size.py [--sets amazoncat-13k,wikilshtc-325k] [--shares 0.25,1] [--work FOLDER] [--memory 4GiB]

Runs read, group (random groups of four), assign (`auto`), emit, train (one tree) and evaluate on a share of the rows of
a stand-in, and on all of them, with two local workers. Prints seconds and the largest worker of every stage, and how
the cost of each stage has grown beside the work: non-zeros times the logarithm of the labels. Exit code 1 if a stage
has grown by more than 1.25 times that, or a run did not finish. Stages of a few seconds do not count: what they cost
whatever the size weighs too much. --work keeps data, runs and store: the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import named_figures
from tree import write_first_rows

SETS = "amazoncat-13k,wikilshtc-325k"
SHARES = "0.25,1"
ALLOWED = 1.25
SHORT = 10.0  # seconds of a stage at full size that do not count
GIB = 1 << 30
PIPELINE = """name: {name}
seed: 0
data: {{dir: {data}}}
group: {{rule: random, size: 4}}
assign: {{method: auto}}
emit: {{datasets: [tree], formats: [parquet]}}
train: {{tree: {{n_trees: 1}}}}
evaluate: {{split: test, k: 5}}
report: none
cluster: {{kind: local, workers: {workers}, memory_limit: {memory}}}
"""


class Cost(NamedTuple):
    """What a stage cost: seconds without compilation, and the largest worker in bytes."""

    seconds: float
    peak_memory: int


class Run(NamedTuple):
    """A finished run."""

    n_rows: int
    work: float  # non-zeros times the logarithm of the labels
    stages: dict[str, Cost]
    precisions: list[float]


def measure(name: str, share: float, work: Path, memory: str, workers: int = 2) -> Run:
    """Make a share of the rows of a stand-in and run the pipeline on them."""
    from xpipe.synth import spec_of

    spec = spec_of(name)
    rows = {"train": round(spec.n_train * share), "test": round(spec.n_test * share)}
    title = f"{name}-{share:g}"
    data, pipeline = work / "data" / title, work / f"{title}.yaml"
    if not data.exists():
        unfinished = data.with_name(f"{title}.unfinished")
        if unfinished.exists():
            for file in unfinished.iterdir():
                file.unlink()
            unfinished.rmdir()
        write_first_rows(name, str(unfinished), rows)
        unfinished.rename(data)
    pipeline.write_text(PIPELINE.format(name=title, data=data, memory=memory, workers=workers))
    command = [sys.executable, "-m", "xpipe", "run", str(pipeline)]
    if subprocess.run(command, cwd=work, stdout=sys.stderr, check=False).returncode:
        raise SystemExit(f"{title} did not finish")
    results = json.loads((work / "runs" / title / "results.json").read_text())
    stages = {
        stage["stage"]: Cost(stage["cost"]["seconds"], stage["cost"]["peak_memory"]) for stage in results["stages"]
    }
    summary = next(stage["summary"] for stage in results["stages"] if stage["stage"] == "evaluate")
    precisions = summary["models"][0]["precision"]
    entries = sum(rows.values()) * spec.features_per_sample
    return Run(sum(rows.values()), entries * math.log(spec.n_labels), stages, [precisions[k - 1] for k in (1, 3, 5)])


def show(name: str, runs: dict[float, Run]) -> bool:
    """Print a table; returns whether every stage has grown no faster than its work."""
    from rich.console import Console
    from rich.table import Table

    shares = sorted(runs)
    small, large = runs[shares[0]], runs[shares[-1]]
    most = ALLOWED * large.work / small.work
    table = Table(
        "stage", *(f"{runs[share].n_rows:,} rows" for share in shares), "grown by", f"at most {most:.1f}",
        title=f"SYNTHETIC stand-in of {name}",
    )  # fmt: skip
    held = True
    for stage in large.stages:
        costs = [runs[share].stages[stage] for share in shares]
        grown = costs[-1].seconds / max(costs[0].seconds, 1e-9)
        counts = costs[-1].seconds >= SHORT and len(shares) > 1
        held &= not counts or grown <= most
        if len(shares) > 1:
            named_figures.record(f"{name}, {stage}: seconds grown by", grown)
        named_figures.record(f"{name}, {stage}: GiB of the largest worker", costs[-1].peak_memory / GIB)
        verdict = ("yes" if grown <= most else "NO") if counts else ""
        spoken = (f"{cost.seconds:.1f} s, {cost.peak_memory / GIB:.2f} GiB" for cost in costs)
        table.add_row(stage, *spoken, f"{grown:.1f}" if len(shares) > 1 else "", verdict)
    for share in shares:
        for k, value in zip((1, 3, 5), runs[share].precisions, strict=True):
            named_figures.record(f"{name}, {runs[share].n_rows:,} rows: P@{k}", 100 * value)
    quality = (" / ".join(f"{100 * value:.2f}" for value in runs[share].precisions) for share in shares)
    table.add_row("P@1 / P@3 / P@5", *quality, "", "")
    Console(width=120).print(table)
    return held


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--shares", default=SHARES)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--memory", default="4GiB")
    named_figures.add_option(parser)
    options = parser.parse_args()
    held = True
    with tempfile.TemporaryDirectory(prefix="xpipe-size-") as scratch:
        work = (options.work or Path(scratch)).resolve()
        os.makedirs(work / "data", exist_ok=True)
        for name in options.sets.split(","):
            shares = sorted(map(float, options.shares.split(",")))
            held &= show(name, {share: measure(name, share, work, options.memory) for share in shares})
    named_figures.write(options.json)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
