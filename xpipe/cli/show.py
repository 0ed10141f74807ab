"""`xpipe show`: shows the results of a run again. Computes nothing."""

from __future__ import annotations

import os

import click


@click.command(short_help="Show the results of a run.")
@click.argument("folder", metavar="RUN")
def show(folder: str) -> None:
    """Show the results of a run or of a matrix: its folder, or its name below runs/."""
    from xpipe.cli import run_tables
    from xpipe.engine import results
    from xpipe.errors import ConfigError
    from xpipe.ground import files

    candidates = [folder, os.path.join("runs", folder)]
    for candidate in candidates:
        run, table = (results.path_of(candidate, name) for name in (results.RESULTS, results.TABLE))
        if not files.exists(run) and not files.exists(table):
            continue
        if files.exists(run):
            with results.shown(run):
                run_tables.show_results(results.read_results(candidate))
        if files.exists(table):
            from xpipe.cli.model_tables import show_matrix

            with results.shown(table):
                show_matrix(results.read_table(candidate))
        return
    raise ConfigError(
        f"no results of a run {folder!r}",
        why=f"looked for results.json and table.json in {' and '.join(candidates)}",
        fix="xpipe run ... first",
    )
