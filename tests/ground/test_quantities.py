"""Sizes and durations: what people write, and what they read back."""

from __future__ import annotations

import pytest

from xpipe.ground.quantities import format_bytes, format_seconds, parse_bytes, parse_duration


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("4GiB", 4 * 2**30), ("500MB", 500_000_000), (" 1.5 kib ", 1536), ("7", 7), (12, 12), ("1tib", 2**40),
        ("2B", 2), ("0.5KB", 500),
    ],
)  # fmt: skip
def test_parse_bytes(text, count):
    assert parse_bytes(text) == count


@pytest.mark.parametrize(
    "text", ["", "GiB", "4 GiBs", "-1MB", "0", "0GiB", "1e3", "nan", "4,5GB", True, "0.5", "4GiB/s"]
)
def test_what_is_no_size(text):
    with pytest.raises(ValueError, match="such as 4GiB or 500MB"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10min", 600), ("1.5h", 5400), ("2d", 172800), (3, 3), (0.25, 0.25), ("5M", 300)],
)
def test_parse_duration(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["soon", "0", "-3s", "3 weeks"])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match="90s, 10min or 1h"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (2**20 - 1, "1 MiB"), (2**20, "1 MiB"), (5 * 2**30, "5.00 GiB")],
)
def test_format_bytes(count, text):
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (59.9, "59.9 s"),
        (59.96, "1 min 00 s"),
        (61, "1 min 01 s"),
        (3599.6, "1 h 00 min"),
        (7322, "2 h 02 min"),
    ],
)
def test_format_seconds(seconds, text):
    assert format_seconds(seconds) == text
