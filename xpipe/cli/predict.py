"""`xpipe predict`: the best labels of new rows, by a model of a run. Holds no prediction."""

from __future__ import annotations

from typing import Any

import click

from xpipe.cli.completion import complete_files, complete_runs
from xpipe.metrics.options import K


@click.command(short_help="Predict labels of new rows with a model of a run.")
@click.argument("run", metavar="RUN", shell_complete=complete_runs)
@click.argument("input_place", metavar="INPUT", shell_complete=complete_files)
@click.option("--out", required=True, metavar="FILE", help="The Parquet table to write.")
@click.option("--model", metavar="NAME", help="Which model, where the run has several: tree, or the name of a head.")
@click.option("-k", type=click.IntRange(1), default=K, show_default=True, help="Labels per row.")
@click.option(
    "--threshold", type=click.FloatRange(0, 1), default=0.0, show_default=True, help="The lowest score to write."
)
@click.option("--split", metavar="NAME", help="Split of an INPUT folder; by default test, else dev, else train.")
@click.option("--cluster", metavar="KIND", help="Who computes: local, none, an address or a name.")
@click.pass_obj
def predict(options: dict[str, Any], /, run: str, input_place: str, out: str, model: str | None, **wanted: Any) -> None:
    """Predict the labels of INPUT with a model of RUN.

    RUN: its folder, its name below runs/, or the file or folder of a model. INPUT: a folder or a file that pipelines
    read. The table has the columns row, id, rank, label, name and score; labels have the numbers and names of the data
    that the run read.
    """
    from xpipe.cli.console import SYNTHETIC, new_console
    from xpipe.cli.progress import Progress
    from xpipe.config.clusters import look_up
    from xpipe.engine.places import check_file
    from xpipe.stages.predict.predicting import PredictOptions, predict_input

    check_file("--out", out)
    with Progress(mode=options["progress"]) as progress:
        found = predict_input(run, input_place, out, model, PredictOptions(**wanted), progress, look_up)
    console = new_console()
    if found.synthetic:
        console.print(SYNTHETIC, style="bold yellow")
    console.print(f"wrote {found.path}: {found.predictions:,} predictions for {found.rows:,} rows by {found.model}")
