"""`xpipe owners`: who owns which label, by name, and how far to trust it. Computes nothing: owners/ has all of it."""

from __future__ import annotations

import click

from xpipe.cli.completion import complete_runs

SHOWN = 20  # rows of a table, unless told otherwise


@click.command(short_help="Show who owns which label, and how sure that is.")
@click.argument("run", metavar="RUN", shell_complete=complete_runs)
@click.option("--group", metavar="G", help="The members of a group and their labels; its name or number.")
@click.option("--label", metavar="L", help="The owners of a label, surest first; its name or number.")
@click.option("--doubtful", type=click.IntRange(1), metavar="N", help="The N owners with the lowest chances.")
@click.option("--most", type=click.IntRange(1), default=SHOWN, show_default=True, help="Rows of --group and --label.")
def owners(run: str, group: str | None, label: str | None, doubtful: int | None, most: int) -> None:
    """Show who owns which label in RUN: its folder, or its name below runs/.

    Without an option: how many there are, and how good they are expected to be. owners/ of the run has all of them.
    """
    from xpipe.cli import owner_tables
    from xpipe.engine import results
    from xpipe.errors import ConfigError
    from xpipe.ground import files
    from xpipe.stages.emitted_paths import OWNERS_FOLDER
    from xpipe.stages.predict.run_models import find_finished_run

    if sum(option is not None for option in (group, label, doubtful)) > 1:
        raise ConfigError("--group, --label and --doubtful exclude each other", fix="give one of them")
    folder = find_finished_run(run)
    path = files.join(folder, OWNERS_FOLDER)
    if group is not None:
        owner_tables.show_group(path, group, most)
    elif label is not None:
        owner_tables.show_label(path, label, most)
    elif doubtful is not None:
        owner_tables.show_doubtful(path, doubtful)
    else:
        with results.shown(results.path_of(folder)):
            owner_tables.show_overview(path, results.read_results(folder))
