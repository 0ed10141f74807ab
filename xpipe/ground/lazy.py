"""Public names of rooms, imported on first use, so that importing a room is instant and type checkers see every name.

Holds no names of its own: the only list of a room's public names is its `__init__.pyi`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
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


def modules_and_names(
    package: str, file: str, names: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The same for the package itself: its modules and, from the modules that `names` tells, some names of theirs."""
    modules = [module.name for module in pkgutil.iter_modules([os.path.dirname(file)]) if module.name != "__main__"]
    known = sorted([*modules, *names])

    def attribute(name: str) -> Any:
        if name in names:
            return getattr(importlib.import_module(names[name]), name)
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return attribute, lambda: known, known
