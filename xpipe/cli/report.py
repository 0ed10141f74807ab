"""`xpipe report`: makes the report of a finished run, or of a matrix, anew. Runs no stage."""

from __future__ import annotations

import click

from xpipe.cli.completion import complete_runs


@click.command(short_help="Make the report of a run anew.")
@click.argument("folder", metavar="RUN", shell_complete=complete_runs)
@click.option("--out", metavar="FILE", help="Write the report to this file, and leave the folder of the run as it is.")
def report(folder: str, out: str | None) -> None:
    """Make report.html of a run or of a matrix anew: its folder, or its name below runs/.

    The run may have been made without a report. Figures that it lacks are counted in its store.
    """
    from xpipe.cli.run_tables import show_written
    from xpipe.engine import places
    from xpipe.engine.results import find_run, path_of, shown
    from xpipe.stages.report import again

    if out is not None:
        places.check_file("--out", out)
    found = find_run(folder)
    with shown(path_of(found, again.described_by(found))):
        path = again.make_again(found, out)
    show_written([path])
