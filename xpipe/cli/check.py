"""`xpipe check`: reads every row of a folder and compares it with published statistics. Holds no reading."""

from __future__ import annotations

import sys
from typing import Any

import click

from xpipe.cli.completion import complete_files
from xpipe.cli.options import folder_options


@click.command(short_help="Read every row of a folder, compare with published statistics.")
@click.argument("folder", shell_complete=complete_files)
@click.option("--name", help="Compare with this dataset of the catalog (default: recognised by folder name or shape).")
@folder_options
def check(folder: str, name: str | None, **reading: Any) -> None:
    """Read every row of FOLDER and compare it with the published statistics."""
    from xpipe.cli import run_tables
    from xpipe.formats.checking import check_folder

    report = check_folder(folder, name, **reading)
    run_tables.show_check(report)
    sys.exit(0 if report.ok else 3)
