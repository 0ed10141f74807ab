"""Section `train`: the options of trees are those of the library."""

from __future__ import annotations

import dataclasses

import pytest
from pydantic import ValidationError

from xpipe.errors import ConfigError
from xpipe.stages.train_trees.params import TreeParams
from xpipe.trees import TreeOptions
from xpipe.trees.options import ABOVE, AT_LEAST

SHARED = [field.name for field in dataclasses.fields(TreeOptions) if field.name in TreeParams.model_fields]


def test_defaults_are_those_of_the_library():
    assert SHARED == ["n_trees", "arity", "max_leaf", "loss", "cost", "threshold", "calibrate"]
    for name in SHARED:
        assert getattr(TreeParams(), name) == getattr(TreeOptions(), name)


@pytest.mark.parametrize("name", [name for name in SHARED if name in {**AT_LEAST, **ABOVE}])
def test_ranges_are_those_of_the_library(name):
    wrong = AT_LEAST[name] - 1 if name in AT_LEAST else ABOVE[name]
    with pytest.raises(ConfigError, match=name):
        TreeOptions(**{name: wrong})
    with pytest.raises(ValidationError, match=name):
        TreeParams(**{name: wrong})
