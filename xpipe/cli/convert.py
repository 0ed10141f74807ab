"""`xpipe convert`: writes a folder or file in another format. Holds no format."""

from __future__ import annotations

from typing import Any

import click

from xpipe.cli.completion import complete_files
from xpipe.cli.options import folder_options
from xpipe.errors import printable


@click.command(short_help="Write a folder or file in another format.")
@click.argument("source", shell_complete=complete_files)
@click.argument("target", shell_complete=complete_files)
@click.option("--to", "form", type=click.Choice(["xmc", "split", "npz", "svmlight", "parquet"]), required=True)
@folder_options
def convert(source: str, target: str, form: str, **reading: Any) -> None:
    """Write SOURCE (a folder or one file) to the folder TARGET in another format. Says what it has no place for."""
    from xpipe.cli import run_tables
    from xpipe.engine.places import check_folder
    from xpipe.formats.convert import convert as convert_files

    check_folder("TARGET", target)
    notes: list[str] = []
    run_tables.show_written(convert_files(source, target, form, notes=notes, **reading))
    for note in notes:
        click.echo(f"note: {printable(note)}")
