"""Kills of a run at every change it makes to a file: the same command then ends with the bytes of an undisturbed run.

One process: every operation, one after the other; each third time the resumed run is killed as well. Worker processes:
random operations of whichever process comes there first. After each, nothing but what an undisturbed run leaves may lie
in the folder of the runs.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.campaigns import Outcome
from tests.campaigns.kill_hook.sitecustomize import die, watch
from tests.samples import run_pipeline, write_dataset
from xpipe.cli.progress import Progress

PIPELINE = """\
name: sample
data: {{dir: {data}, part_rows: 64}}
group: {{rule: random, size: 4}}
embed: {{method: eagle, steps: 2}}
assign: {{method: discriminative}}
emit: {{datasets: [tree, heads], formats: [parquet, xmc]}}
train:
  tree: {{n_trees: 2}}
  heads:  # verified by signs and by top k
    - {{layer: bsl, dim: 3, width: 8, epochs: 2, batch_size: 64}}
    - {{layer: softmax, width: 3, epochs: 1, batch_size: 64, calibrate: none}}
verify: {{split: test}}
evaluate: {{split: test, k: 3, resamples: 10}}
report: none
cluster: {cluster}
out: {out}
"""
# Their content names the machine, a time or a path; whether digests.json is written depends on how old the data is.
OWN_CONTENT = ("results.json", ".lock", "manifest.json")
MAY_BE_ABSENT = ("digests.json",)
WORKER_KILLS = 40


def kills(seed: int) -> Outcome:
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="xpipe-kills-") as top, Progress() as progress:
        work = Path(top)
        data = write_dataset(work / "data", n_train=160, n_test=40)
        _write(work / "reference", data)
        run_pipeline(work / "reference" / "pipeline.yaml")  # loads every kernel: the children need not
        expected = content_below(work / "reference" / "runs")
        total = count_operations(_write(work / "count", data))
        outcome.figures["file operations of a run"] = total
        bar = progress.stage("kills in one process", total=total, unit="kills")
        for number in range(1, total + 1):
            _kill_one(work / "one", data, number, seed, expected, outcome)
            bar.advance()
        bar.done()
        bar = progress.stage("kills with worker processes", total=WORKER_KILLS, unit="kills")
        dice = random.Random(seed)
        for number in sorted(dice.randint(1, total // 2) for _ in range(WORKER_KILLS)):
            _kill_with_workers(work / "workers", data, number, expected, outcome)
            bar.advance()
        bar.done()
    return outcome


def _write(folder: Path, data: Path, cluster: str = "none") -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    path = folder / "pipeline.yaml"
    path.write_text(PIPELINE.format(data=data, cluster=cluster, out=folder / "runs" / "sample"))
    return path


def content_below(runs: Path) -> dict[str, bytes]:
    """Every file below the runs; of those whose content is the machine's own, only that they are there.

    An entry of the store's users is named after the path of its run: here, by its number among them.
    """
    found, users = {}, 0
    for path in sorted(runs.rglob("*")):
        if not path.is_file() or path.name in MAY_BE_ABSENT:
            continue
        name, own = str(path.relative_to(runs)), path.name in OWN_CONTENT
        if path.parent.name == "users":
            name, own, users = f"user {users}", True, users + 1
        found[name] = b"" if own else path.read_bytes()
    return found


def in_child(work: Callable[[], object]) -> int:
    """Wait status of a copy of this process that did the work."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitpid(pid, 0)[1]


def count_operations(path: Path) -> int:
    """How often a run of the pipeline changes a file."""
    reader, writer = os.pipe()

    def work() -> None:
        watch(str(path.parent), lambda count: os.write(writer, b"."))
        run_pipeline(path)

    with open(reader, "rb") as stream:
        pid = os.fork()
        if pid == 0:
            work()
            os._exit(0)
        os.close(writer)
        total = len(stream.read())
        assert os.waitpid(pid, 0)[1] == 0
    return total


def run_until(path: Path, number: int) -> Callable[[], None]:
    """Work that runs the pipeline and dies before this operation."""

    def work() -> None:
        watch(str(path.parent), lambda count: die() if count == number else None)
        run_pipeline(path)

    return work


def _kill_one(folder: Path, data: Path, number: int, seed: int, expected: dict, outcome: Outcome) -> None:
    path = _write(folder, data)
    dice = random.Random(f"{seed}/{number}")
    moments = [number] + ([dice.randint(1, 60)] if dice.random() < 1 / 3 else [])
    for moment in moments:
        if os.WIFSIGNALED(in_child(run_until(path, moment))):
            outcome.count("kills in one process")
    status = in_child(lambda: run_pipeline(path))
    compare(status == 0, folder, f"killed before operation {moments}", expected, outcome)


def _kill_with_workers(folder: Path, data: Path, number: int, expected: dict, outcome: Outcome) -> None:
    path = _write(folder, data, "{kind: local, workers: 2, memory_limit: 2GiB}")
    marker = folder / "killed"
    hook = str(Path(__file__).parent / "kill_hook")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([hook, os.getcwd()]),
        "XPIPE_KILL_AT": f"{folder / 'runs'}:{number}:{marker}",
    }
    command = [sys.executable, "-m", "xpipe", "--quiet", "run", str(path)]
    first = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if marker.exists():
        who = "the run" if first.returncode == -signal.SIGKILL else "a worker"
        outcome.count(f"kills of {who} with workers")
        if who == "a worker" and first.returncode != 0:
            outcome.failures.append(f"the run did not survive its worker: {first.stderr[-300:]}")
    del environment["XPIPE_KILL_AT"]
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    compare(again.returncode == 0, folder, f"with workers, operation {number}", expected, outcome)


def compare(finished: bool, folder: Path, what: str, expected: dict, outcome: Outcome) -> None:
    """Note whatever differs below folder/runs from what is expected."""
    if not finished:
        outcome.failures.append(f"{what}: the same command did not go on")
        return
    found = content_below(folder / "runs")
    if found != expected:
        names = sorted({*found, *expected})
        wrong = [name for name in names if found.get(name) != expected.get(name)]
        outcome.failures.append(f"{what}: {len(wrong)} files differ, are missing or left behind: {wrong[:5]}")
