"""The hint for a mistyped name."""

from __future__ import annotations

from xpipe.ground.close_match import did_you_mean


def test_the_closest_names_come_first():
    known = ["eurlex-4k", "eurlex57k", "wiki10-31k"]
    assert did_you_mean("eurlex-4", known) == "did you mean eurlex-4k?"
    assert did_you_mean("eurlex4k", known, most=3) == "did you mean eurlex-4k or eurlex57k?"


def test_words_are_compared_and_shown_in_the_forms_asked_for():
    assert did_you_mean("SISE", ["Size"], plain=str.lower, shown=repr) == "did you mean 'Size'?"
    assert did_you_mean("SISE", ["Size"]) == ""


def test_nothing_alike_is_no_hint():
    assert did_you_mean("colour", ["size", "depth"]) == ""
    assert did_you_mean("size", []) == ""
    assert did_you_mean("depht", ["depth"], cutoff=1.0) == ""
