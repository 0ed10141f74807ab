"""Public names of rooms, imported on first use, so that importing a room is instant. Holds no names of its own."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any


def public_name(room: str, public: dict[str, str], name: str) -> Any:
    """What a room's `__getattr__` gives for a name; `public` maps names to the room's files.

    The files themselves are public too, so that `import xpipe` is enough for `xpipe.formats.parquet`.
    """
    if name in public:
        return getattr(importlib.import_module(f"{room}.{public[name]}"), name)
    if not name.startswith("_") and importlib.util.find_spec(f"{room}.{name}") is not None:
        return importlib.import_module(f"{room}.{name}")
    raise AttributeError(f"module {room!r} has no attribute {name!r}")
