"""Sizes, durations and times as people write them.

Holds nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

_BYTES = {
    "": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40,
}  # fmt: skip
MOST = 2.0**60  # bytes or seconds; more is a typing error
_SECONDS = {"": 1.0, "S": 1.0, "M": 60.0, "MIN": 60.0, "H": 3600.0, "D": 86400.0}


def _parse(text: str | int | float, scale: Mapping[str, float], example: str) -> float:
    """A number with a unit of this scale. Raises ValueError for any other text."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(text))
    if match is None or match[2].upper() not in scale or float(match[1]) <= 0:
        raise ValueError(f"must be a number above 0 with a unit, such as {example}")
    quantity = float(match[1]) * scale[match[2].upper()]
    if quantity > MOST:
        raise ValueError(f"must be a quantity that a machine can have, such as {example}")
    return quantity


def parse_bytes(text: str | int) -> int:
    """The bytes of a text such as 4GiB or 500MB, or of a plain number. Raises ValueError for any other text."""
    count = int(_parse(text, _BYTES, "4GiB or 500MB"))
    if count < 1:
        raise ValueError("must be at least one byte, such as 4GiB or 500MB")
    return count


def parse_duration(text: str | int | float) -> float:
    """The seconds of a text such as 90s, 10min or 1h, or of a plain number. Raises ValueError for any other text."""
    return _parse(text, _SECONDS, "90s, 10min or 1h")


def format_bytes(count: float) -> str:
    """A number of bytes for people: 3 MiB, 1.25 GiB."""
    for unit in ("B", "KiB", "MiB"):
        if round(count) < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"


def format_seconds(seconds: float) -> str:
    """A duration for people: 3.2 s, 2 min 05 s, 1 h 10 min."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def timestamp() -> str:
    """The time now, in UTC: 2026-05-01T12:00:00Z."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
