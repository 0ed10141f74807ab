"""Verdicts of every mode and every kind of inputs: the same bytes from 1, 2 and 3 workers, and after kills.

Kills come at random changes of a file; the same command then ends with the bytes of an undisturbed run.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import tempfile
from pathlib import Path

import numpy as np

from tests.campaigns import Outcome
from tests.campaigns.kills import compare, content_below, count_operations, in_child, run_until
from tests.samples import random_matrices, run_pipeline
from xpipe.cli.progress import Progress
from xpipe.formats import write_xmc

PIPELINE = """\
name: proofs
data: {{dir: {data}}}
verify: {{weights: {data}/W.npz, key: weight, split: test, mode: {mode}, inputs: {inputs}, radius: {radius}}}
report: none
cluster: {cluster}
out: {out}
"""
MODES, INPUTS, RADII = ("sign", "topk", "argmax"), ("any", "nonnegative"), ("bounds", "exact")
WORKERS = (1, 2, 3)
KILLS = 15  # of each combination
N_LABELS, N_SETS, DIMENSIONS = 16, 1_500, 4


def proofs(seed: int) -> Outcome:
    outcome, dice = Outcome(), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="xpipe-proofs-") as top, Progress() as progress:
        work = Path(top)
        data = _write_data(work / "data", seed)
        combinations = list(itertools.product(MODES, INPUTS, RADII))
        bar = progress.stage("verdicts", total=len(combinations) * (len(WORKERS) + KILLS), unit="runs")
        for combination in combinations:
            settings = dict(zip(("mode", "inputs", "radius"), combination, strict=True))
            run_pipeline(_write(work / "reference", data, settings))
            expected = content_below(work / "reference" / "runs")
            for workers in WORKERS:
                cluster = f"{{kind: local, workers: {workers}, memory_limit: 1GiB}}"
                run_pipeline(_write(work / "workers", data, settings, cluster))
                compare(True, work / "workers", f"{combination}, {workers} workers", expected, outcome)
                outcome.count("runs with workers")
                bar.advance()
            total = count_operations(_write(work / "killed", data, settings))
            for _ in range(KILLS):
                path = _write(work / "killed", data, settings)
                moment = dice.randint(1, total)
                if os.WIFSIGNALED(in_child(run_until(path, moment))):
                    outcome.count("kills")
                finished = in_child(lambda path=path: run_pipeline(path)) == 0
                compare(finished, work / "killed", f"{combination}, killed at {moment}", expected, outcome)
                bar.advance()
        bar.done()
    return outcome


def _write_data(folder: Path, seed: int) -> Path:
    """Label sets for several units of work, and a layer of which some of them are impossible."""
    folder.mkdir()
    for name, n_rows in (("train", 20), ("test", N_SETS)):
        X, Y = random_matrices(n_rows, n_labels=N_LABELS, seed=seed + n_rows)
        write_xmc(str(folder / f"{name}.txt"), X, Y)
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((N_LABELS, DIMENSIONS)).astype(np.float16)
    np.savez(folder / "W.npz", weight=weights, bias=rng.standard_normal(N_LABELS).astype(np.float32))
    return folder


def _write(folder: Path, data: Path, settings: dict[str, str], cluster: str = "none") -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    path = folder / "pipeline.yaml"
    path.write_text(PIPELINE.format(data=data, cluster=cluster, out=folder / "runs" / "proofs", **settings))
    return path
