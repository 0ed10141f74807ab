"""Waits end, and say so."""

from __future__ import annotations

from xpipe.engine.cluster.waiting import Wait


def test_a_wait_says_how_long_it_takes_and_ends():
    now, said = [0.0], []
    wait = Wait("a worker", 100, said.append, clock=lambda: now[0])
    for now[0] in range(0, 100, 7):
        assert wait.goes_on()
    assert said == [
        "waiting for a worker since 35 s, giving up after 100 s",
        "waiting for a worker since 70 s, giving up after 100 s",
    ]
    now[0] = 99.0
    wait.again()
    assert (wait.seconds, wait.left) == (0, 100)
    now[0] = 198.9
    assert wait.goes_on()
    now[0] = 199.0
    assert not wait.goes_on()
    assert (wait.seconds, wait.left) == (100, 0)
