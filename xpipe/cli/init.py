"""`xpipe init`: looks at a table and writes a pipeline file with guesses, each with its reason. Runs nothing."""

from __future__ import annotations

import click

from xpipe.cli.completion import complete_files


@click.command(short_help="Look at a table and write a pipeline file for it.")
@click.argument("table", shell_complete=complete_files)
@click.option("--out", help="The pipeline file to write. Default: the name of the table, with .yaml.")
def init(table: str, out: str | None) -> None:
    """Look at the columns of TABLE and write a commented pipeline file; an existing file is never overwritten.

    TABLE is a .csv, .tsv, .jsonl or .parquet file (text also .gz or .zst), a folder or a pattern.
    """
    from xpipe.cli.first_pipeline import look_at, write_pipeline
    from xpipe.errors import printable

    looked = look_at(table)
    path = write_pipeline(looked, out)
    for line in looked.told():
        click.echo(printable(line))
    click.echo(f"wrote {printable(path)}")
    for line in looked.missing():
        click.echo(f"to fill in: {printable(line)}")
    click.echo(f"next: xpipe run {printable(path)}")
