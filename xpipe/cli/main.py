"""The command `xpipe`: reads the command line, runs a command, and turns every error into an exit code.

Holds no command: each has a file of its own. Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

import _thread
import contextlib
import io
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import click

from xpipe.cli.check import check
from xpipe.cli.clean import clean
from xpipe.cli.cluster import cluster
from xpipe.cli.completion import answer_shell
from xpipe.cli.convert import convert
from xpipe.cli.doctor import doctor
from xpipe.cli.evaluate import evaluate
from xpipe.cli.examples import examples
from xpipe.cli.export import export
from xpipe.cli.init import init
from xpipe.cli.owners import owners
from xpipe.cli.plan import plan
from xpipe.cli.predict import predict
from xpipe.cli.report import report
from xpipe.cli.run import run
from xpipe.cli.schema import schema
from xpipe.cli.show import show
from xpipe.cli.synth import synth
from xpipe.cli.verify import verify
from xpipe.errors import INTERRUPTED, XpipeError, printable, printable_lines
from xpipe.ground.library_threads import start_with_one_thread
from xpipe.ground.release import __version__

A_MOMENT = 0.05  # seconds: longer than any `__del__` takes
COMMANDS = (
    run, plan, init, examples, schema, check, convert, synth, evaluate, show, owners, predict, report, export, clean,
    verify, doctor, cluster,
)  # fmt: skip


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="xpipe")
@click.option("-q", "--quiet", is_flag=True, help="Only warnings, errors and the final table.")
@click.option("-v", "--verbose", is_flag=True, help="Details of failures.")
@click.pass_context
def cli(context: click.Context, quiet: bool, verbose: bool) -> None:
    """From labels on groups of samples to clean extreme multi-label datasets.

    \b
    xpipe init items.csv                write a pipeline file for a table
    xpipe run pipelines/eurlex.yaml     do everything a pipeline file says
    xpipe plan pipelines/eurlex.yaml    what that would do, and why
    """
    context.obj = {"progress": "quiet" if quiet else "auto", "verbose": verbose}


def _set(key: str, value: Any) -> Callable[[click.Context, click.Parameter, bool], None]:
    """What an option of every command does: it sets `key` of the options of `cli`."""

    def callback(context: click.Context, parameter: click.Parameter, given: bool) -> None:
        if given and context.obj is not None:
            context.obj[key] = value

    return callback


for command in COMMANDS:  # -q and -v are understood after the command, too
    command.params += [
        click.Option(
            ["-q", "--quiet"], is_flag=True, expose_value=False, callback=_set("progress", "quiet"),
            help="Only warnings, errors and the final table.",
        ),
        click.Option(
            ["-v", "--verbose"], is_flag=True, expose_value=False, callback=_set("verbose", True),
            help="Details of failures.",
        ),
    ]  # fmt: skip
    cli.add_command(command)


def main() -> None:
    """Run a command. Every way out has its exit code (see `errors`)."""
    start_with_one_thread()
    signal.signal(signal.SIGTERM, _interrupt)
    sys.unraisablehook = _hear_again
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for characters that the terminal's encoding lacks
    answered = answer_shell(cli)
    if answered is not None:
        sys.exit(answered)
    resume: list[str] = []  # the command that goes on with an interrupted run
    try:
        _invoke(resume)
    except BaseException as error:
        sys.exit(_exit_code(error, "".join(resume)))


def _invoke(resume: list[str]) -> None:
    """Run the command of the command line. A command that can be resumed puts the text for that into `resume`."""
    with cli.make_context("xpipe", sys.argv[1:]) as context, _flushed():
        try:
            cli.invoke(context)
        finally:
            resume.append(context.meta.get("resume", ""))


def _exit_code(error: BaseException, resume: str) -> int:
    """Tell the user what an exception means. Returns the exit code. Raises what is no error, such as SystemExit."""
    if isinstance(error, KeyboardInterrupt):
        return _tell_interrupt(resume)
    if isinstance(error, click.ClickException):
        return _tell_wrong_usage(error)
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.Abort):
        return 1
    if isinstance(error, XpipeError):
        _tell(error)
        if "-v" in sys.argv or "--verbose" in sys.argv:
            _show_traceback(error)
        return error.exit_code
    if isinstance(error, BrokenPipeError):
        _leave_stdout()
        return 0
    if isinstance(error, Exception):
        return _tell_unforeseen(error)
    raise error


def _interrupt(*_: Any) -> NoReturn:
    """Treat SIGTERM like Ctrl-C."""
    raise KeyboardInterrupt


def _hear_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Python drops what is raised in `__del__` and in callbacks of weak references: a Ctrl-C there comes once more."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _thread.start_new_thread(_interrupt_soon, ())  # here it would be dropped again
    else:
        sys.__unraisablehook__(unraisable)


def _interrupt_soon() -> None:
    """Interrupt the main thread once it has left what it is in."""
    time.sleep(A_MOMENT)
    _thread.interrupt_main()


def _tell_interrupt(resume: str) -> int:
    """Tell that the command was interrupted, and how to go on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C would only garble the message
    hint = f"; finished chunks are kept, to go on: {printable(resume)}" if resume else ""
    click.echo(f"interrupted{hint}", err=True)
    return INTERRUPTED


def _tell_wrong_usage(error: click.ClickException) -> int:
    """Print click's message about wrong arguments, made safe to print."""
    shown = io.StringIO()
    error.show(shown)
    click.echo(printable_lines(shown.getvalue()), err=True, nl=False)
    return error.exit_code


def _tell_unforeseen(error: Exception) -> int:
    """Tell of an exception that no code nearer to it explained: the system's fault, or a bug."""
    from xpipe.ground.os_errors import last_resort

    told = last_resort(error)
    if told is not None:
        _tell(told)
        _leave_stdout()
        return told.exit_code
    _show_traceback(error)
    click.echo(
        f"this is a bug in xpipe {__version__} ({type(error).__name__}); please report it with the lines above",
        err=True,
    )
    return XpipeError.exit_code


def _tell(error: XpipeError) -> None:
    """Print an error with all its parts."""
    click.echo(f"{click.style('error:', fg='red', bold=True)} {error}", err=True)


def _show_traceback(error: BaseException) -> None:
    """Print the traceback of an exception, made safe to print."""
    import traceback

    click.echo(printable_lines("".join(traceback.format_exception(error)).rstrip()), err=True)


@contextlib.contextmanager
def _flushed() -> Iterator[None]:
    """Flush stdout at the end of the block, so that a full disk behind `> file` raises here, not when Python ends."""
    try:
        yield
    except SystemExit:
        if sys.stdout is not None:
            sys.stdout.flush()
        raise
    if sys.stdout is not None:
        sys.stdout.flush()


def _leave_stdout() -> None:
    """Give up what cannot be written to stdout. Python would try again at its end, and change the exit code."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        return
    with contextlib.suppress(Exception):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
