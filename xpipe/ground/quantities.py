"""Sizes and durations as people write them. Nothing else."""

from __future__ import annotations

import re

_BYTES = {
    "": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40,
}  # fmt: skip
MOST = 2.0**60  # bytes or seconds: more is a slip of the keyboard
_SECONDS = {"": 1.0, "S": 1.0, "M": 60.0, "MIN": 60.0, "H": 3600.0, "D": 86400.0}


def _parse(text: str | int | float, scale: dict, example: str) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(text))
    if match is None or match[2].upper() not in scale or float(match[1]) <= 0:
        raise ValueError(f"must be a number above 0 with a unit, such as {example}")
    quantity = float(match[1]) * scale[match[2].upper()]
    if quantity > MOST:
        raise ValueError(f"must be a quantity that a machine can have, such as {example}")
    return quantity


def parse_bytes(text: str | int) -> int:
    """4GiB, 500MB, or a plain number of bytes."""
    count = int(_parse(text, _BYTES, "4GiB or 500MB"))
    if count < 1:
        raise ValueError("must be at least one byte, such as 4GiB or 500MB")
    return count


def parse_duration(text: str | int | float) -> float:
    """90s, 10min, 1h, or a plain number of seconds; gives seconds."""
    return _parse(text, _SECONDS, "90s, 10min or 1h")


def format_bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if round(count) < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"


def format_seconds(seconds: float) -> str:
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
