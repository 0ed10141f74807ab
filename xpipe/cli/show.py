"""`xpipe show`: shows the results of a run again. Computes nothing."""

from __future__ import annotations

import click

from xpipe.cli.completion import complete_runs


@click.command(short_help="Show the results of a run.")
@click.argument("folder", metavar="RUN", shell_complete=complete_runs)
def show(folder: str) -> None:
    """Show the results of a run or of a matrix: its folder, or its name below runs/."""
    from xpipe.cli import run_tables
    from xpipe.engine import results
    from xpipe.ground import files

    found = results.find_run(folder)
    run, table = (results.path_of(found, name) for name in (results.RESULTS, results.TABLE))
    if files.exists(run):
        with results.shown(run):
            run_tables.show_results(results.read_results(found))
    if files.exists(table):
        from xpipe.cli.model_tables import show_matrix

        with results.shown(table):
            show_matrix(results.read_table(found))
