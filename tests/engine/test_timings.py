"""Times of the tasks of a step: which task and which worker a unit belongs to, in whatever order tasks finish."""

from __future__ import annotations

from tests import work
from xpipe.engine.cluster.calls import Call, Outcome, execute
from xpipe.engine.messages import Unit
from xpipe.engine.timings import StepClock


def call(*names):
    units = tuple(Unit(name, size) for size, name in enumerate(names, 1))
    return Call("a task", work.write_square, "folder", "step", units, None)


def test_columns_name_tasks_as_they_were_given_and_workers_as_they_finish():
    calls = [call("a", "b"), call("c"), call("d")]
    clock = StepClock("step", together=False, bundled=True, bytes_per_row=0)
    clock.workers_are_there()
    clock.give(calls)
    clock.add(calls[2], Outcome({}, 0, {"d": 4.0}, "host-7"))
    clock.add(calls[0], Outcome({}, 0, {"a": 1.0, "b": 2.00004}, "host-5"))
    clock.add(calls[1], Outcome({}, 0, {"c": 3.0}, "host-7"))
    times = clock.times()
    assert times["task_of"] == [2, 0, 0, 1]
    assert times["worker_of"] == [0, 1, 1, 0]
    assert times["sizes"] == [1, 1, 2, 1]
    assert times["unit_seconds"] == [4.0, 1.0, 2.0, 3.0]
    assert times["seconds"] >= 0
    assert times["opening"] >= 0


def test_a_step_without_tasks():
    times = StepClock("step", together=False, bundled=True, bytes_per_row=0).times()
    assert times["task_of"] == times["worker_of"] == times["sizes"] == times["unit_seconds"] == []


def test_a_call_times_each_of_its_units(tmp_path):
    units = tuple(work.Numbered(f"u{number}", 1, number) for number in range(3))
    outcome = execute(Call("a task", work.write_square, str(tmp_path), "step", units, work.Settings()))
    assert outcome.seconds.keys() == outcome.receipts.keys() == {"u0", "u1", "u2"}
    assert all(0 < seconds < 60 for seconds in outcome.seconds.values())
    assert outcome.worker
