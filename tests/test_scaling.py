"""benchmarks/scaling.py: the arithmetic of its simulation, on steps whose times are known."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from tests.samples import run_pipeline, write_dataset, write_pipeline
from xpipe.engine.cluster import ClusterParams

spec = importlib.util.spec_from_file_location("scaling", Path(__file__).parent.parent / "benchmarks" / "scaling.py")
assert spec is not None
assert spec.loader is not None
scaling = sys.modules["scaling"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(scaling)
Overhead, Stage, Step = scaling.Overhead, scaling.Stage, scaling.Step
NOTHING, CLUSTER = Overhead(), ClusterParams()


def step(*seconds, name="units", bundled=False, sizes=None, start=0.0):
    return Step(name, bundled, 0, tuple(sizes or [1] * len(seconds)), tuple(seconds), start)


def stage(*steps, alone=0.0):
    return Stage("train", steps, alone, 0.0)


def seconds(steps, workers, overhead=NOTHING):
    return scaling.simulate(stage(*steps), workers, overhead, CLUSTER)[0]


def test_each_task_goes_to_the_worker_that_is_free_first():
    assert seconds([step(5, 3, 3, 3)], 1) == 14
    assert seconds([step(5, 3, 3, 3)], 2) == 8  # 5 and 3, 3 and 3
    assert seconds([step(3, 3, 3, 5)], 2) == 8
    assert seconds([step(3, 3, 5)], 2) == 8  # the longest last
    assert seconds([step(5, 3, 3, 3)], 4) == seconds([step(5, 3, 3, 3)], 400) == 5


def test_steps_wait_for_each_other():
    assert seconds([step(2, 2), step(3), step(2, 2)], 2) == 2 + 3 + 2


def test_units_are_bundled_as_the_engine_does():
    many = [step(*[1.0] * 64, bundled=True)]
    assert scaling.simulate_step(many[0], 2, NOTHING, CLUSTER).tasks == 8  # four per worker
    assert scaling.simulate_step(many[0], 64, NOTHING, CLUSTER).tasks == 64
    assert seconds(many, 2) == 32
    assert seconds(many, 100) == 1


def test_a_worker_needs_its_start_once():
    assert seconds([step(1, 1, 1, 1, start=10.0)], 1) == 14
    assert seconds([step(1, 1, 1, 1, start=10.0)], 4) == 11


def test_overheads_of_tasks_are_not_shared_and_those_of_steps_add_up():
    assert seconds([step(1, 1, 1, 1)], 4, Overhead(task=0.5, step=0.25)) == 2.25
    assert seconds([step(1, 1, 1, 1)], 1, Overhead(task=0.5, step=0.25)) == 4.25


def test_where_a_stage_stops():
    serial = stage(
        step(1.0), step(*[1.0] * 99)
    )  # Amdahl: 1 + 99 / n; half of n (1 + 99 / n) is more than 100 from 102 on
    found = scaling.stops_at(serial, NOTHING, CLUSTER)
    assert (
        scaling.efficiency(serial, found, NOTHING, CLUSTER)
        < 0.5
        <= scaling.efficiency(serial, found - 1, NOTHING, CLUSTER)
    )
    assert found < 102
    assert scaling.stops_at(stage(step(*[1.0] * 100_000)), NOTHING, CLUSTER) is None
    assert scaling.stops_at(stage(step(1.0)), NOTHING, CLUSTER) == 3  # half of two workers' time is work


def test_what_limits_a_stage():
    def limit(*steps, workers=8, overhead=NOTHING, alone=0.0):
        return scaling.limit(stage(*steps, alone=alone), workers, overhead, CLUSTER)

    assert limit(step(4.0, name="plan"), step(*[1.0] * 16)) == "plan is one task, 4.0 s"
    assert limit(step(8.0, *[0.5] * 16)) == "units: its longest task, 8.0 s"
    assert limit(step(*[1.0] * 9)) == "units: waiting for its last tasks"
    assert limit(step(*[1.0] * 64), overhead=Overhead(task=2.0)) == "units: handing out 64 tasks"
    assert limit(step(*[1.0] * 64), alone=3.0) == "3.0 s outside of tasks"
    assert limit(step(*[0.1] * 64, start=4.0)) == "units: each worker begins with 4.0 s"


def times(**changes):
    given = {
        "step": "predict", "seconds": 9.0, "opening": 0.0, "together": True, "bundled": True, "bytes_per_row": 0,
        "task_of": [0, 0, 1, 2], "worker_of": [0, 0, 1, 0], "sizes": [10, 30, 20, 20], "unit_seconds": [6.0, 0, 4, 2],
    }  # fmt: skip
    return given | changes


def test_the_start_of_a_worker_is_what_its_first_task_takes_longer():
    found = scaling.step_of(times())  # a row takes 0.1 s, by the last task; 40 rows took 6 s, 20 rows 4 s
    assert found.start == pytest.approx(2.0)
    assert found.seconds == pytest.approx((1.0, 3.0, 2.0, 2.0))
    by_unit = scaling.step_of(times(together=False, sizes=[10, 10, 20, 20], unit_seconds=[4.0, 1.0, 5.0, 2.0]))
    assert by_unit.start == pytest.approx(3.0)  # a row takes 0.1 s; both workers took 3 s longer for their first unit
    assert by_unit.seconds == pytest.approx((1.0, 1.0, 2.0, 2.0))
    assert scaling.step_of(times(together=False, bundled=False)).seconds == (6.0, 0, 4, 2)
    assert scaling.step_of(times(task_of=[0, 0, 0, 0], worker_of=[0] * 4)).start == 0  # nothing to compare with


def test_units_are_in_the_order_in_which_tasks_were_given():
    found = scaling.step_of(times(together=False, bundled=False, task_of=[2, 2, 0, 1], sizes=[1, 2, 3, 4]))
    assert found.sizes == (3, 4, 1, 2)
    assert found.seconds == (4, 2, 6.0, 0)


def test_a_run_tells_what_every_unit_took(tmp_path):
    """What stages write about themselves is what the simulation reads."""
    path = write_pipeline(tmp_path, write_dataset(tmp_path / "data"), cluster="none")
    results = run_pipeline(path, "assign.method=centred", "emit.formats=[parquet]", "train.tree.n_trees=1")
    stages, cluster = scaling.read_run(tmp_path / "runs" / "sample")
    assert scaling.workers_of(cluster) == 1
    assert [each.name for each in stages] == [each["stage"] for each in results["stages"] if each["cost"].get("steps")]
    for each in stages:
        one, steps = scaling.simulate(each, 1, NOTHING, CLUSTER)
        assert each.alone <= one <= each.measured + 0.01
        assert all(step.tasks for step in steps)
    train = next(each for each in stages if each.name == "train")
    assert [each.name for each in train.steps][-3:] == ["room", "weights", "model"]
    written = json.loads((tmp_path / "runs" / "sample" / "results.json").read_text())["stages"]
    assert all(each["cost"].keys() >= {"seconds", "peak_memory", "steps"} for each in written)
    again = run_pipeline(path, "assign.method=centred", "emit.formats=[parquet]", "train.tree.n_trees=1")
    assert [each["cost"] for each in again["stages"]] == [each["cost"] for each in written]  # from the store
