"""`xpipe run`: runs a pipeline file, or every combination of one with a `matrix`. Holds no stage."""

from __future__ import annotations

from typing import Any

import click

from xpipe.cli.combinations import combinations
from xpipe.cli.completion import complete_pipelines
from xpipe.cli.options import SET_HELP


@click.command(short_help="Run a pipeline file; what is finished is not done again.")
@click.argument("pipeline", shell_complete=complete_pipelines)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help=SET_HELP)
@click.pass_obj
def run(options: dict[str, Any], pipeline: str, overrides: tuple[str, ...]) -> None:
    """Run a pipeline file; what is finished already is not done again."""
    from xpipe import config
    from xpipe.cli import run_tables
    from xpipe.cli.progress import Progress
    from xpipe.config.examples import find_pipeline
    from xpipe.engine import execute
    from xpipe.ground import backend

    found = find_pipeline(pipeline)  # a file, or an example of the package
    checked = config.load(found, overrides)
    resume = " ".join(["xpipe run", pipeline, *(f"--set {text}" for text in overrides)])
    click.get_current_context().meta["resume"] = resume
    with Progress(mode=options["progress"]) as progress:
        chosen = backend.choose(checked.backend)
        if chosen.is_news:
            progress.note(f"backend {chosen.name}: {chosen.reason}")
        if checked.matrix:
            from xpipe.engine import sweep

            table = sweep.run(combinations(found, overrides), checked, progress, chosen)
        else:
            results = execute.run(checked, progress, chosen)
    if checked.matrix:
        from xpipe.cli.model_tables import show_matrix

        show_matrix(table)
    else:
        run_tables.show_results(results)
