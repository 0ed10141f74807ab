"""The engine: what a stage is, what must run and why, who computes, what is kept. Knows no particular stage."""

from __future__ import annotations

from typing import Any

from xpipe.ground.lazy import public_name

PUBLIC = {"run": "execute", "plan": "decide", "check": "decide"}


def __getattr__(name: str) -> Any:
    return public_name(__name__, PUBLIC, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *PUBLIC])
