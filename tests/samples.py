"""Small datasets on disk, and runs of pipelines over them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from tests.waiting import LIMIT
from tests.warm_start import WarmPopen
from xpipe import config
from xpipe.cli.progress import Progress
from xpipe.engine import execute, prune, sweep
from xpipe.formats import write_xmc
from xpipe.ground import backend
from xpipe.stages import STAGES

NO_REPORT = "report: none\n"  # drawing takes a second, which most tests can do without


def random_matrices(n_rows, n_features=40, n_labels=12, seed=0):
    """(X, Y) with some rows without labels, some without features, and label 3 unused."""
    rng = np.random.default_rng(seed)
    X = sp.random(n_rows, n_features, 0.15, "csr", np.float32, random_state=rng)
    X.data = rng.random(len(X.data), dtype=np.float32).round(4) + np.float32(0.01)
    Y = sp.random(n_rows, n_labels, 0.2, "csr", np.float32, random_state=rng)
    Y.data[:] = 1
    Y = Y.tolil()
    Y[:, 3] = 0
    return sp.csr_matrix(X), sp.csr_matrix(Y)


def write_dataset(folder: Path, n_train=300, n_test=80, seed=0):
    folder.mkdir(parents=True, exist_ok=True)
    for name, n_rows, own_seed in (("train", n_train, seed), ("test", n_test, seed + 1)):
        write_xmc(str(folder / f"{name}.txt"), *random_matrices(n_rows, seed=own_seed))
    (folder / "labels.txt").write_text("".join(f"label {i}\n" for i in range(12)))
    return folder


def write_pipeline(folder: Path, data: Path, extra: str = "", *, part_rows=32, cluster="none") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "pipeline.yaml"
    path.write_text(
        f"name: sample\n"
        f"data: {{dir: {data}, part_rows: {part_rows}}}\n"
        f"group: {{rule: random, size: 4}}\n"
        f"emit: {{formats: [parquet, xmc, npz, svmlight]}}\n"
        f"cluster: {cluster}\n"
        f"backend: cpu\n"  # looking for a GPU takes a process of its own
        f"{'' if 'report:' in extra else NO_REPORT}"
        f"out: {folder / 'runs' / 'sample'}\n{extra}"
    )
    return path


def run_pipeline(path: Path, *overrides: str, concluding: bool = True) -> dict:
    """Run in this process, quietly, without a report unless an override asks for one.

    concluding: whether to draw it, too.
    """
    if not any(text.startswith("report") for text in overrides):
        overrides = ("report=none", *overrides)
    with Progress(mode="quiet") as progress:
        return execute.run(config.load(path, overrides), progress, backend.choose("cpu"), concluding=concluding)


def combinations(path: Path, overrides: Sequence[str] = ()) -> list:
    """Those of a pipeline file with a `matrix`."""
    return sweep.expand(lambda settings: config.load(path, [*overrides, *settings]))


def clean_store(runs: str, **options):
    """As the command does."""
    return prune.clean_store(runs, {stage.name for stage in STAGES}, **options)


def digests(results: dict) -> dict:
    return {stage["stage"]: (stage["key"], stage["digests"]) for stage in results["stages"]}


def bytes_below(folder: Path) -> dict[str, bytes]:
    """Every file of a run folder that must be the same bytes for the same data: not results.json, not the lock."""
    skip = {"results.json", ".lock"}
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in skip
    }


STARTED: list[subprocess.Popen] = []  # conftest ends what a test leaves running


def start_xpipe(*arguments: object, module: str = "xpipe", **options) -> subprocess.Popen:
    """The command line in a process of its own, which does not outlive the test."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **options}
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    STARTED.append(WarmPopen(module, [*map(str, arguments)], env=environment, **options))
    return STARTED[-1]


def end_started() -> None:
    """Kill and collect every process that is still there: another test must not hear of it."""
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        process.wait()


def run_xpipe(*arguments: object, **options) -> tuple[int, str]:
    """(exit code, everything printed)."""
    process = start_xpipe(*arguments, **options)
    output, _ = process.communicate(timeout=LIMIT)
    return process.returncode, output
