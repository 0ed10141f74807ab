"""Old names of moved modules: only those of xpipe, never those of other libraries."""

from __future__ import annotations

import importlib

import pytest

from xpipe.ground import moved


@pytest.mark.parametrize("name", sorted(name for name in moved.MOVED if "." not in name))
def test_names_of_other_libraries_are_left_alone(name):
    """dask.dataframe tries `import sparse`: it must not get a module of ours."""
    assert moved.OldNames().find_spec(name) is None
    assert moved.OldNames().find_spec(f"xpipe.{name}") is not None


def test_an_old_name_still_works():
    with pytest.warns(DeprecationWarning, match=r"xpipe\.sparse is xpipe\.ground\.sparse now"):
        found = importlib.import_module("xpipe.sparse")
    assert found is importlib.import_module("xpipe.ground.sparse")
