"""`xpipe export`: params, metrics and artifacts of a finished run, for trackers of experiments. Runs no stage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from xpipe.engine.tracking import TrackedRun

KINDS = ("mlflow", "csv")


@click.command(short_help="Send params, metrics and artifacts of a run to MLflow, or write them as CSV.")
@click.argument("words", metavar="[mlflow|csv] RUN", nargs=-1, required=True)
@click.option("--to", type=click.Choice(KINDS), help="The same as the first word.")
@click.option(
    "--out", metavar="PLACE", help="mlflow: the tracking URI, by default MLflow's own. csv: a file, by default stdout."
)
@click.option("--experiment", metavar="NAME", help="mlflow: the experiment; by default the name of the pipeline.")
@click.option(
    "--largest", metavar="SIZE", default="10MiB", show_default=True, help="mlflow: larger files are not sent."
)
def export(words: tuple[str, ...], to: str | None, out: str | None, experiment: str | None, largest: str) -> None:
    """Send a finished RUN, or all runs of a matrix, to a tracker of experiments.

    RUN: its folder, or its name below runs/. The folder of the run stays as it is. A run that MLflow has already is not
    sent again.

    \b
    xpipe export mlflow runs/mine --out sqlite:///mlflow.db
    xpipe export runs/mine --to csv > mine.csv
    """
    from xpipe.engine.results import find_run
    from xpipe.engine.tracking import tracked_runs
    from xpipe.errors import ConfigError

    kind, name = _understand(words, to)
    folder = find_run(name)
    runs = tracked_runs(folder)
    if kind == "csv":
        _write_csv(runs, folder, out)
        return
    from xpipe.cli.console import new_console
    from xpipe.engine.mlflow_export import send_to_mlflow
    from xpipe.ground.quantities import parse_bytes

    title = experiment or runs[0].name.split("/")[0]
    try:
        limit = parse_bytes(largest)
    except ValueError as error:
        raise ConfigError(
            f"{largest!r} is no size", where="--largest", why=str(error), fix="--largest 10MiB"
        ) from error
    sent = send_to_mlflow(runs, out, title, limit)
    console = new_console()
    for run, (run_id, is_new) in zip(runs, sent, strict=True):
        console.print(f"{run.name}: {'sent' if is_new else 'was there already'}, MLflow run {run_id} of {title}")
    if any(run.tags["xpipe.synthetic"] == "SYNTHETIC" for run in runs):
        from xpipe.cli.console import SYNTHETIC

        console.print(SYNTHETIC, style="bold yellow")


def _understand(words: tuple[str, ...], to: str | None) -> tuple[str, str]:
    """(kind, run) of the words. Raises UsageError where they are not one of each."""
    if len(words) == 2 and words[0] in KINDS and to in (None, words[0]):
        return words[0], words[1]
    if len(words) == 1 and to is not None:
        return to, words[0]
    raise click.UsageError("say where to, and which run: xpipe export mlflow RUN, or xpipe export RUN --to csv")


def _write_csv(runs: list[TrackedRun], folder: str, out: str | None) -> None:
    """Print the table, or write it to a file that is not in the folder of the run."""
    from xpipe.engine.places import check_file
    from xpipe.engine.tracking import runs_as_csv
    from xpipe.errors import ConfigError
    from xpipe.ground import files

    text = runs_as_csv(runs)
    if out is None:
        click.echo(text, nl=False)
        return
    if files.is_local(out) and files.is_local(folder) and Path(folder).resolve() in Path(out).resolve().parents:
        raise ConfigError(
            "--out lies in the folder of the run",
            where=out,
            why="that folder has what the run wrote, and nothing else",
            fix="name a file outside of it",
        )
    check_file("--out", out)
    files.write_bytes(out, text.encode())
