"""The command `xpipe`: options in, exit code out. Nothing heavy is imported before a command needs it.

Holds no work: each command calls one function of a room and hands what comes back to `console`.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NoReturn

import click

from xpipe import __version__
from xpipe.errors import INTERRUPTED, XpipeError

SET_HELP = "Override one value of the pipeline file, e.g. --set group.size=10. May be given several times."
TEXT_OPTIONS = (
    click.option(
        "--index-base", type=click.IntRange(0, 1), default=0, show_default=True, help="Number of the first feature."
    ),
    click.option(
        "--label-base", type=click.IntRange(0, 1), default=0, show_default=True, help="Number of the first label."
    ),
    click.option("--n-features", type=click.IntRange(1), help="Width of files without a header."),
    click.option("--n-labels", type=click.IntRange(1), help="Labels of files without a header."),
)


def text_options(command: Any) -> Any:
    for option in reversed(TEXT_OPTIONS):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="xpipe")
@click.option("-q", "--quiet", is_flag=True, help="Only warnings, errors and the final table.")
@click.option("-v", "--verbose", is_flag=True, help="Details of failures.")
@click.pass_context
def cli(context: click.Context, quiet: bool, verbose: bool) -> None:
    """From labels on groups of samples to clean extreme multi-label datasets.

    \b
    xpipe run pipelines/eurlex.yaml     do everything a pipeline file says
    xpipe plan pipelines/eurlex.yaml    what that would do, and why
    """
    context.obj = {"progress": "quiet" if quiet else "auto", "verbose": verbose}


@cli.command(short_help="Run a pipeline file; what is finished is not done again.")
@click.argument("pipeline")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help=SET_HELP)
@click.pass_obj
def run(options: dict, pipeline: str, overrides: tuple[str, ...]) -> None:
    """Run a pipeline file; what is finished already is not done again."""
    from xpipe import backend, config, console
    from xpipe import pipeline as pipelines
    from xpipe.progress import Progress

    checked = config.load(pipeline, overrides)
    resume = " ".join(["xpipe run", pipeline, *(f"--set {text}" for text in overrides)])
    click.get_current_context().meta["resume"] = resume
    with Progress(mode=options["progress"]) as progress:
        chosen = backend.choose(checked.backend)
        progress.note(f"backend {chosen.name}: {chosen.reason}")
        results = pipelines.run(checked, progress, chosen)
    console.show_results(results)


@cli.command(short_help="What `run` would do, and why: cached or to do, rows, memory.")
@click.argument("pipeline")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help=SET_HELP)
def plan(pipeline: str, overrides: tuple[str, ...]) -> None:
    """Show what `run` would do: per stage cached or to do, why, rows, memory."""
    from xpipe import config, console
    from xpipe import pipeline as pipelines

    checked = config.load(pipeline, overrides)
    console.show_plan(checked, pipelines.plan(checked))


@cli.command(short_help="Read every row of a folder, compare with published statistics.")
@click.argument("folder")
@click.option("--name", help="Compare with this dataset of the catalog (default: recognised by folder name or shape).")
@text_options
def check(folder: str, name: str | None, **reading: Any) -> None:
    """Read every row of FOLDER and compare it with the published statistics."""
    from xpipe import console
    from xpipe.formats.checking import check_folder

    report = check_folder(folder, name, **reading)
    console.show_check(report)
    sys.exit(0 if report.ok else 3)


@cli.command(short_help="Write a folder or file in another format.")
@click.argument("source")
@click.argument("target")
@click.option("--to", "form", type=click.Choice(["xmc", "split", "npz", "svmlight", "parquet"]), required=True)
@text_options
def convert(source: str, target: str, form: str, **reading: Any) -> None:
    """Write SOURCE (a folder or one file) to the folder TARGET in another format."""
    from xpipe import console
    from xpipe.formats.convert import convert as convert_files

    console.show_written(convert_files(source, target, form, **reading))


@cli.command(short_help="Write a stand-in of a catalog dataset.")
@click.argument("name")
@click.argument("out")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.pass_obj
def synth(options: dict, name: str, out: str, seed: int) -> None:
    """Write a stand-in of the dataset NAME (e.g. eurlex-4k) to the folder OUT."""
    from xpipe import console
    from xpipe.progress import Progress
    from xpipe.synth import plan_pieces, synthesize

    with Progress(mode=options["progress"]) as progress:
        bar = progress.stage(f"synth {name}", total=sum(piece.n_rows for piece in plan_pieces(name)), unit="rows")
        facts = synthesize(name, out, seed, progress=lambda done, _: bar.advance(done - bar.count))
    console.show_synth(name, out, facts)


@cli.command(short_help="Show the results of a run.")
@click.argument("folder", metavar="RUN")
def show(folder: str) -> None:
    """Show the results of a run: its folder, or its name below runs/."""
    from xpipe import console, pipeline
    from xpipe.errors import ConfigError

    candidates = [folder, os.path.join("runs", folder)]
    for candidate in candidates:
        results = pipeline.read_results(candidate)
        if results:
            console.show_results(results)
            return
    raise ConfigError(
        f"no results of a run {folder!r}",
        why=f"looked for results.json in {' and '.join(candidates)}",
        fix="xpipe run ... first",
    )


@cli.command(short_help="Free the store of what no finished run uses.")
@click.argument("runs", default="runs")
@click.option("--all", "everything", is_flag=True, help="Also artifacts that finished runs still use.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
def clean(runs: str, everything: bool, dry_run: bool) -> None:
    """Free the store below the folder RUNS of what no finished run uses. Emitted datasets stay."""
    from xpipe import console
    from xpipe.cleaning import clean_store

    console.show_cleaned(clean_store(runs, everything=everything, dry_run=dry_run), dry_run)


@cli.command(short_help="Examine this machine: versions, memory, disk, GPU.")
def doctor() -> None:
    """Examine this machine: versions, memory, disk, GPU, compiled-code cache."""
    from xpipe import console
    from xpipe.doctor import examine

    checks = examine()
    console.show_doctor(checks)
    sys.exit(5 if any(check.ok is False for check in checks) else 0)


def _interrupt(*_: Any) -> NoReturn:
    raise KeyboardInterrupt


def main() -> None:
    """Run a command; every way out has its exit code (see `errors`)."""
    signal.signal(signal.SIGTERM, _interrupt)
    resume = ""
    try:
        with cli.make_context("xpipe", sys.argv[1:]) as context:
            try:
                cli.invoke(context)
            finally:
                resume = context.meta.get("resume", "")
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C would only garble the message
        hint = f"; finished chunks are kept, to go on: {resume}" if resume else ""
        click.echo(f"interrupted{hint}", err=True)
        sys.exit(INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.exceptions.Exit, click.Abort) as stop:
        sys.exit(getattr(stop, "exit_code", 1))
    except XpipeError as error:
        click.echo(f"{click.style('error:', fg='red', bold=True)} {error}", err=True)
        if "-v" in sys.argv or "--verbose" in sys.argv:
            import traceback

            traceback.print_exc()
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        import traceback

        traceback.print_exc()
        click.echo(
            f"this is a bug in xpipe {__version__} ({type(error).__name__}); please report it with the lines above",
            err=True,
        )
        sys.exit(70)
