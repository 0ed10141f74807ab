"""The command `xpipe`: options in, exit code out. Nothing heavy is imported before a command needs it.

Holds no work: each command calls one function of a room and hands what comes back to `console`.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import click

from xpipe import __version__
from xpipe.errors import INTERRUPTED, XpipeError, printable, printable_lines
from xpipe.ground.checked_json import dump_json
from xpipe.ground.library_threads import start_with_one_thread

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


FOLDER_OPTIONS = (
    click.option(
        "--format",
        type=click.Choice(["xmc", "split", "npz", "parquet-matrices", "svmlight", "parquet"]),
        help="Where a folder holds several.",
    ),
    click.option("--split-base", type=click.IntRange(0, 1), help="Number of the first row in index split files."),
    click.option("--header/--no-header", default=True, show_default=True, help="Whether XMC text has its header."),
)


def folder_options(command: Any) -> Any:
    for option in reversed(FOLDER_OPTIONS):
        command = option(command)
    return text_options(command)


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


def _combinations(path: str, overrides: tuple[str, ...]) -> list[Any]:
    """Every pipeline of a file with a `matrix`."""
    from xpipe import config
    from xpipe.engine import sweep

    return sweep.expand(lambda settings: config.load(path, [*overrides, *settings]))


@cli.command(short_help="Run a pipeline file; what is finished is not done again.")
@click.argument("pipeline")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help=SET_HELP)
@click.pass_obj
def run(options: dict, pipeline: str, overrides: tuple[str, ...]) -> None:
    """Run a pipeline file; what is finished already is not done again."""
    from xpipe import config
    from xpipe.cli import run_tables
    from xpipe.cli.progress import Progress
    from xpipe.engine import execute
    from xpipe.ground import backend

    checked = config.load(pipeline, overrides)
    resume = " ".join(["xpipe run", pipeline, *(f"--set {text}" for text in overrides)])
    click.get_current_context().meta["resume"] = resume
    with Progress(mode=options["progress"]) as progress:
        chosen = backend.choose(checked.backend)
        progress.note(f"backend {chosen.name}: {chosen.reason}")
        if checked.matrix:
            from xpipe.engine import sweep

            table = sweep.run(_combinations(pipeline, overrides), checked, progress, chosen)
        else:
            results = execute.run(checked, progress, chosen)
    if checked.matrix:
        from xpipe.cli.model_tables import show_matrix

        show_matrix(table)
    else:
        run_tables.show_results(results)


@cli.command(short_help="What `run` would do, and why: cached or to do, rows, memory.")
@click.argument("pipeline")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help=SET_HELP)
def plan(pipeline: str, overrides: tuple[str, ...]) -> None:
    """Show what `run` would do: per stage cached or to do, why, rows, memory."""
    from xpipe import config
    from xpipe.cli import run_tables
    from xpipe.engine import decide

    checked = config.load(pipeline, overrides)
    if not checked.matrix:
        run_tables.show_plan(checked, decide.plan(checked))
        return
    from xpipe.engine import sweep

    combinations = _combinations(pipeline, overrides)
    sweep.check(combinations)
    for combination in combinations:
        title = ", ".join(combination.values.values())
        run_tables.show_plan(combination.pipeline, decide.plan(combination.pipeline), title)


@cli.command(short_help="Read every row of a folder, compare with published statistics.")
@click.argument("folder")
@click.option("--name", help="Compare with this dataset of the catalog (default: recognised by folder name or shape).")
@folder_options
def check(folder: str, name: str | None, **reading: Any) -> None:
    """Read every row of FOLDER and compare it with the published statistics."""
    from xpipe.cli import run_tables
    from xpipe.formats.checking import check_folder

    report = check_folder(folder, name, **reading)
    run_tables.show_check(report)
    sys.exit(0 if report.ok else 3)


@cli.command(short_help="Write a folder or file in another format.")
@click.argument("source")
@click.argument("target")
@click.option("--to", "form", type=click.Choice(["xmc", "split", "npz", "svmlight", "parquet"]), required=True)
@folder_options
def convert(source: str, target: str, form: str, **reading: Any) -> None:
    """Write SOURCE (a folder or one file) to the folder TARGET in another format. Says what it has no place for."""
    from xpipe.cli import run_tables
    from xpipe.engine.places import check_folder
    from xpipe.formats.convert import convert as convert_files

    check_folder("TARGET", target)
    notes: list[str] = []
    run_tables.show_written(convert_files(source, target, form, notes=notes, **reading))
    for note in notes:
        click.echo(f"note: {printable(note)}")


@cli.command(short_help="Write a stand-in of a catalog dataset.")
@click.argument("name")
@click.argument("out")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.pass_obj
def synth(options: dict, name: str, out: str, seed: int) -> None:
    """Write a stand-in of the dataset NAME (e.g. eurlex-4k) to the folder OUT."""
    from xpipe.cli import run_tables
    from xpipe.cli.progress import Progress
    from xpipe.engine.places import check_folder
    from xpipe.synth.stand_in import plan_pieces, synthesize

    check_folder("OUT", out)
    with Progress(mode=options["progress"]) as progress:
        bar = progress.stage(f"synth {name}", total=sum(piece.n_rows for piece in plan_pieces(name)), unit="rows")
        facts = synthesize(name, out, seed, progress=lambda done, _: bar.advance(done - bar.count))
    run_tables.show_synth(name, out, facts)


@cli.command(short_help="Measure scores against true labels: P@k, nDCG@k, PSP@k and more.")
@click.option("--truth", required=True, metavar="PATH", help="True labels: a file, or a dataset's folder.")
@click.option("--scores", required=True, metavar="FILE", help="Scores: .npz, .parquet (lists indices, values) or text.")
@click.option("--split", default="test", show_default=True, help="Split of a dataset's folder.")
@click.option("-k", type=click.IntRange(1), default=5, show_default=True, help="Measure at 1..k.")
@click.option("--train", metavar="FILE", help="Labels of the training rows, for propensities and label frequencies.")
@click.option("--dataset", metavar="NAME", help="Use the propensity constants usual for this dataset.")
@click.option("--propensity", nargs=2, type=float, metavar="A B", help="Propensity constants.")
@click.option("--filter-labels", metavar="FILE", help="Pairs `row label` that do not count.")
@click.option("--remove-empty", is_flag=True, help="Leave out rows without true labels.")
@click.option("--threshold", type=float, help="Also F1 of all predictions with at least this score.")
@click.option("--resamples", type=click.IntRange(0), default=1000, show_default=True, help="For intervals; 0: none.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--out", metavar="FILE", help="Write all results as JSON.")
@text_options
def evaluate(out: str | None, **options: Any) -> None:
    """Measure SCORES against TRUTH: metrics at 1..k with intervals, and by label frequency."""
    from xpipe.cli.metric_tables import show_evaluation
    from xpipe.engine.places import check_file
    from xpipe.ground import files
    from xpipe.metrics.evaluation import evaluate as evaluate_files

    if out:
        check_file("--out", out)
    results = evaluate_files(**options)
    if out:
        files.write_bytes(files.local(out), dump_json(results))
    show_evaluation(results)


@cli.command(short_help="Show the results of a run.")
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


@cli.command(short_help="Free the store of what no finished run uses.")
@click.argument("runs", default="runs")
@click.option("--store", metavar="PATH", help="The store, where it is not RUNS/.store.")
@click.option("--all", "everything", is_flag=True, help="Also artifacts that finished runs still use.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
def clean(runs: str, store: str | None, everything: bool, dry_run: bool) -> None:
    """Free the store below the folder RUNS of what no finished run uses, here or elsewhere. Emitted datasets stay."""
    from xpipe.cli import run_tables
    from xpipe.engine.prune import clean_store
    from xpipe.stages import STAGES

    stages = {stage.name for stage in STAGES}
    removed = clean_store(runs, stages, store=store, everything=everything, dry_run=dry_run, tell=click.echo)
    run_tables.show_cleaned(removed, dry_run)


@cli.command(short_help="Prove which label sets an output layer can and cannot predict.")
@click.option("--weights", required=True, help="Weights, labels x inputs: .npy, .npz or .safetensors.")
@click.option("--key", help="Name of the weights in a file that holds several arrays.")
@click.option("--bias", help="Bias, one number a label, in a file of its own.")
@click.option("--bias-key", help="Name of the bias in its file, or in that of the weights.")
@click.option("--no-bias", is_flag=True, help="Leave out the bias that lies beside the weights.")
@click.option("--labels", "sets", required=True, help="Label sets: XMC text, split label file, .npz or .parquet.")
@click.option("--names", help="Names of the labels, one a line, for the explanations.")
@click.option("--out", required=True, help="Parquet file for the verdicts and their certificates.")
@click.option("--radius", type=click.Choice(["bounds", "exact"]), default="bounds", show_default=True)
@click.option("--eps", type=float, default=1e-8, show_default=True, help="Radius above which a set is argmaxable.")
@click.option("--box", type=float, default=1e4, show_default=True, help="Inputs lie in [-box, box].")
@click.option("--threads", type=click.IntRange(1), help="Default: one a usable core.")
@click.option("--explain", "n_explained", type=click.IntRange(0), default=5, show_default=True, help="Sets to explain.")
@text_options
@click.pass_obj
def verify(options: dict, **given: Any) -> None:
    """Prove for every label set whether some input makes the layer score its labels above 0 and all others below.

    Exit code: 0 if all sets are argmaxable, 1 if not.
    """
    from xpipe.cli.progress import Progress
    from xpipe.cli.verify_command import verify_files
    from xpipe.engine.places import check_file

    check_file("--out", given["out"])
    with Progress(mode=options["progress"]) as progress:
        shown, all_argmaxable = verify_files(progress=progress, **given)
    shown()
    sys.exit(0 if all_argmaxable else 1)


@cli.command(short_help="Examine this machine: versions, memory, disk, GPU.")
def doctor() -> None:
    """Examine this machine: versions, memory, disk, GPU, compiled-code cache."""
    from xpipe.cli import run_tables
    from xpipe.cli.doctor import examine

    checks = examine()
    run_tables.show_doctor(checks)
    sys.exit(5 if any(check.ok is False for check in checks) else 0)


def _interrupt(*_: Any) -> NoReturn:
    raise KeyboardInterrupt


def _show_traceback() -> None:
    import traceback

    click.echo(printable_lines(traceback.format_exc().rstrip()), err=True)


def main() -> None:
    """Run a command; every way out has its exit code (see `errors`)."""
    start_with_one_thread()
    signal.signal(signal.SIGTERM, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name the terminal's encoding lacks is no bug
    resume = ""
    try:
        with cli.make_context("xpipe", sys.argv[1:]) as context, _flushed():
            try:
                cli.invoke(context)
            finally:
                resume = context.meta.get("resume", "")
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C would only garble the message
        hint = f"; finished chunks are kept, to go on: {printable(resume)}" if resume else ""
        click.echo(f"interrupted{hint}", err=True)
        sys.exit(INTERRUPTED)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        click.echo(printable_lines(shown.getvalue()), err=True, nl=False)
        sys.exit(error.exit_code)
    except (click.exceptions.Exit, click.Abort) as stop:
        sys.exit(getattr(stop, "exit_code", 1))
    except XpipeError as error:
        click.echo(f"{click.style('error:', fg='red', bold=True)} {error}", err=True)
        if "-v" in sys.argv or "--verbose" in sys.argv:
            _show_traceback()
        sys.exit(error.exit_code)
    except BrokenPipeError:
        _leave_stdout()
        sys.exit(0)
    except Exception as error:
        from xpipe.ground.os_errors import last_resort

        told = last_resort(error)
        if told is not None:  # the system's fault, which nobody nearer to it has explained
            click.echo(f"{click.style('error:', fg='red', bold=True)} {told}", err=True)
            _leave_stdout()
            sys.exit(told.exit_code)
        _show_traceback()
        click.echo(
            f"this is a bug in xpipe {__version__} ({type(error).__name__}); please report it with the lines above",
            err=True,
        )
        sys.exit(70)


@contextlib.contextmanager
def _flushed() -> Iterator[None]:
    """A full disk behind `> file` shows inside this block, and not when Python has gone."""
    try:
        yield
    except SystemExit:
        if sys.stdout is not None:
            sys.stdout.flush()
        raise
    if sys.stdout is not None:
        sys.stdout.flush()


def _leave_stdout() -> None:
    """What cannot be written any more would be tried again when Python ends, with an exit code of its own."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        return
    with contextlib.suppress(Exception):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
