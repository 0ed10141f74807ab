"""Public names of rooms, imported on first use, so that importing a room is instant and type checkers see every name.

Holds no names of its own: the only list of a room's public names is its `__init__.pyi`.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import lazy_loader

from xpipe.ground.moved import renamed


def public_names(
    room: str, file: str, old_names: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """What a room's `__init__.py` assigns to `__getattr__`, `__dir__` and `__all__`.

    The names are those that the `__init__.pyi` beside `file` imports from the room's modules. `old_names` maps the
    names of the last release to those of this one; they give a DeprecationWarning. The modules of the room are
    attributes too, listed or not, so that `import xpipe` is enough for `xpipe.formats.parquet`.
    """
    listed, directory, names = lazy_loader.attach_stub(room, file)
    old_names = old_names or {}

    def attribute(name: str) -> Any:
        if name in names:
            return listed(name)
        if name in old_names:
            return renamed(room, old_names, name)
        if not name.startswith("_") and importlib.util.find_spec(f"{room}.{name}") is not None:
            return importlib.import_module(f"{room}.{name}")
        raise AttributeError(f"module {room!r} has no attribute {name!r}")

    return attribute, directory, names
