"""`xpipe plan`: shows what `run` would do, and why. Runs nothing."""

from __future__ import annotations

import click

from xpipe.cli.combinations import combinations
from xpipe.cli.completion import complete_pipelines
from xpipe.cli.options import SET_HELP


@click.command(short_help="What `run` would do, and why: cached or to do, rows, memory.")
@click.argument("pipeline", shell_complete=complete_pipelines)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help=SET_HELP)
def plan(pipeline: str, overrides: tuple[str, ...]) -> None:
    """Show what `run` would do: per stage cached or to do, why, rows, memory."""
    from xpipe import config
    from xpipe.cli import run_tables
    from xpipe.config.examples import find_pipeline
    from xpipe.engine import decide

    found = find_pipeline(pipeline)  # a file, or an example of the package
    checked = config.load(found, overrides)
    if not checked.matrix:
        run_tables.show_plan(checked, decide.plan(checked), replaced=decide.replaced(checked))
        return
    from xpipe.engine import sweep

    members = combinations(found, overrides)
    sweep.check(members)
    for combination in members:
        title = ", ".join(combination.values.values())
        run_tables.show_plan(combination.pipeline, decide.plan(combination.pipeline), title)
