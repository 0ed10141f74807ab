"""Pipelines that come with the package: found by name where no file of that name exists. Checks none of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from xpipe.ground.release import PACKAGE

FOLDER = "pipelines"


def example_pipelines() -> dict[str, Path]:
    """The path of each pipeline that comes with the package, by its name.

    Examples
    --------
    >>> from xpipe.config.examples import example_pipelines
    >>> "tiny" in example_pipelines()
    True
    """
    package = PACKAGE
    folder = package / FOLDER  # in a wheel; in a clone it lies beside the package
    folder = folder if folder.is_dir() else package.parent / FOLDER
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_pipeline(name: str) -> str:
    """The path of a pipeline: that of a file, else that of the example with this name.

    Where there is neither, the name is returned as it is: `load` says what is wrong with it.
    """
    if os.path.lexists(name) or os.path.basename(name) != name:
        return name
    found = example_pipelines().get(name.removesuffix(".yaml"))
    return name if found is None else os.fspath(found)


def first_comment(path: Path) -> str:
    """The first sentence of the comment at the top of a pipeline file."""
    return " ".join(_comment_lines(path)).partition(". ")[0]


def _comment_lines(path: Path) -> Iterator[str]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            return
        yield line.removeprefix("#").strip()
