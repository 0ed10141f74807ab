"""The figures that a benchmark finds, by name, and the file that `--json` names. Holds no measurement.

A benchmark calls `add_option` for its parser, `record` where a figure is known, and `write` at its end. What counts on
another machine is recorded: ratios of times, never times; precisions, shares and ratios of memory as they are.
`reproductions/measures/benchmark.py` reads the file. A benchmark is one process: the figures are those of this module.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

_found: dict[str, float] = {}


def add_option(parser: argparse.ArgumentParser) -> None:
    """The option --json."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures by name, as JSON")


def record(name: str, value: float) -> None:
    """Keep one figure. A name can be taken once."""
    if name in _found:
        raise ValueError(f"two figures have the name {name!r}")
    _found[name] = float(value)


def write(path: Path | None) -> None:
    """Write all figures, where a file is named."""
    if path is not None:
        path.write_text(json.dumps(_found, indent=1, allow_nan=False) + "\n", encoding="utf-8")
