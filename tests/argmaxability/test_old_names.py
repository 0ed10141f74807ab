"""Names of the last release: they give what has another name now, and a warning."""

from __future__ import annotations

import importlib
import sys

import pytest

from xpipe import argmaxability


@pytest.mark.parametrize(
    ("old", "new"), [("Head", "OutputLayer"), ("state_head", "prepare_layer"), ("UNIT", "SETS_PER_BLOCK")]
)
def test_old_names_warn(old, new):
    with pytest.warns(DeprecationWarning, match=f"argmaxability.{old} is .*{new} now"):
        assert getattr(argmaxability, old) is getattr(argmaxability, new)


@pytest.mark.parametrize(("old", "new"), [("head", "output_layer"), ("layer", "layer_files"), ("unit", "block")])
def test_old_modules_warn(old, new):
    sys.modules.pop(f"xpipe.argmaxability.{old}", None)
    with pytest.warns(DeprecationWarning, match=f"argmaxability.{new} now"):
        found = importlib.import_module(f"xpipe.argmaxability.{old}")
    assert found is importlib.import_module(f"xpipe.argmaxability.{new}")
