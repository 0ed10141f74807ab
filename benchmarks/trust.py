"""Is the expected quality of assigned labels the real one? Expected against true precision and F1, on data of your own.

    python benchmarks/trust.py FOLDER [FOLDER ...] [--groups random:4,random:10,kmeans:8] [--seeds 1] [--method auto]

FOLDER and groups as in `benchmarks/owners.py`. Expected figures come from group labels alone; true labels of samples
are looked at afterwards, to compare. `inside`: whether the true figure lies in the interval.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import named_figures
from owners import GROUPS, Problem, make_problem, make_stand_in

ALIKE = ("kmeans", "copies")  # groups of samples that look alike
ALLOWED = {False: 0.03, True: 0.08}  # how far expected figures may be off; True: samples of a group look alike


def measure(problem: Problem, seed: int, method: str) -> dict[str, object]:
    """Expected and true figures of one assignment."""
    from xpipe.eagle import impute

    X, Y, Y1, Y2 = problem[:4]
    started = time.perf_counter()
    found = impute(X, Y1, Y2, method=method, seed=seed)
    hits = found.labels.astype(bool).multiply(Y.astype(bool)).nnz
    true = {"precision": hits / max(found.labels.nnz, 1), "f1": 2 * hits / max(found.labels.nnz + Y.nnz, 1)}
    row: dict[str, object] = {"method": found.trace["method"], "seconds": time.perf_counter() - started, "true": true}
    row["expected"] = None if found.trust is None else {name: vars(getattr(found.trust, name)) for name in true}
    return row


def cells(row: dict[str, object], allowed: float) -> list[str]:
    """True and expected figure, interval, and whether it holds; for precision, then for F1."""
    shown: list[str] = []
    true, expected = row["true"], row["expected"]
    assert isinstance(true, dict)
    for name in ("precision", "f1"):
        if not isinstance(expected, dict):
            shown += [f"{true[name]:.3f}", "not known", "", ""]
            continue
        figure = expected[name]
        off = figure["value"] - true[name]
        inside = "inside" if figure["low"] <= true[name] <= figure["high"] else "outside"
        mark = "" if abs(off) <= allowed else " (!)"
        shown += [f"{true[name]:.3f}", f"{figure['value']:.3f}", f"{off:+.3f}{mark}",
                  f"{figure['low']:.2f}-{figure['high']:.2f} {inside}"]  # fmt: skip
    return shown


def record(where: str, row: dict[str, object]) -> None:
    """True and expected figures."""
    true, expected = row["true"], row["expected"]
    assert isinstance(true, dict)
    for name, value in true.items():
        named_figures.record(f"{where}: true {name}", value)
        if isinstance(expected, dict):
            named_figures.record(f"{where}: expected {name}", expected[name]["value"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", metavar="FOLDER")
    parser.add_argument("--groups", default=GROUPS)
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, from 0 on")
    parser.add_argument("--method", default="discriminative")
    parser.add_argument("--out", help="a file for the figures, one JSON object per line")
    named_figures.add_option(parser)
    options = parser.parse_args()
    from rich.console import Console
    from rich.table import Table

    names = [f"{name} {what}" for name in ("P", "F1") for what in ("true", "expected", "off", "interval")]
    within: list[bool] = []
    table = Table("data", "groups", "seed", "method", *names, "seconds")
    with tempfile.TemporaryDirectory(prefix="xpipe-trust-") as scratch:
        for folder in options.folders or [make_stand_in(scratch)]:
            for groups in options.groups.split(","):
                for seed in range(options.seeds):
                    problem = make_problem(folder, groups, seed)
                    if problem is None:  # groups are to be given, and are not
                        break
                    row = measure(problem, seed, options.method)
                    name = Path(folder).name if options.folders else "SYNTHETIC eurlex-4k"
                    record(f"{name}, {groups}, seed {seed}", row)
                    shown = cells(row, ALLOWED[groups.startswith(ALIKE)])
                    within.append(not any("(!)" in cell for cell in shown))
                    table.add_row(name, groups, str(seed), str(row["method"]), *shown, f"{row['seconds']:.0f}")
                    if options.out:
                        with open(options.out, "a") as stream:
                            stream.write(json.dumps({"data": name, "groups": groups, "seed": seed, **row}) + "\n")
    named_figures.write(options.json)
    console = Console(width=190)
    console.print(table)
    goal = f"within {ALLOWED[False]}, or {ALLOWED[True]} where samples of a group look alike"
    console.print(f"{goal}: {sum(within)} of {len(within)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
