"""Options that several commands share. Holds no command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from xpipe.formats.file_names import formats
from xpipe.formats.options import ReadOptions

F = TypeVar("F", bound=Callable[..., Any])

SET_HELP = "Override one value of the pipeline file, e.g. --set group.size=10. May be given several times."
TEXT_OPTIONS = (
    click.option(
        "--index-base",
        type=click.IntRange(0, 1),
        default=ReadOptions.index_base,
        show_default=True,
        help="Number of the first feature.",
    ),
    click.option(
        "--label-base",
        type=click.IntRange(0, 1),
        default=ReadOptions.label_base,
        show_default=True,
        help="Number of the first label.",
    ),
    click.option("--n-features", type=click.IntRange(1), help="Width of files without a header."),
    click.option("--n-labels", type=click.IntRange(1), help="Labels of files without a header."),
)


FOLDER_OPTIONS = (
    click.option(
        "--format",
        type=click.Choice(list(formats())),
        help="Where a folder holds several.",
    ),
    click.option("--split-base", type=click.IntRange(0, 1), help="Number of the first row in index split files."),
    click.option(
        "--header/--no-header", default=ReadOptions.header, show_default=True, help="Whether XMC text has its header."
    ),
)


def folder_options(command: F) -> F:
    """Add the options for reading a folder of any format to a command."""
    for option in reversed(FOLDER_OPTIONS):
        command = option(command)
    return text_options(command)


def text_options(command: F) -> F:
    """Add the options for reading text files to a command."""
    for option in reversed(TEXT_OPTIONS):
        command = option(command)
    return command
