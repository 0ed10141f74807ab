"""Public names of rooms, imported on first use, so that importing a room is instant. Holds no names of its own."""

from __future__ import annotations

import importlib
from typing import Any


def public_name(room: str, public: dict[str, str], name: str) -> Any:
    """What a room's `__getattr__` gives for a name; `public` maps names to the room's files."""
    if name in public:
        return getattr(importlib.import_module(f"{room}.{public[name]}"), name)
    raise AttributeError(f"module {room!r} has no attribute {name!r}")
