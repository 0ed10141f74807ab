"""The command `xpipe`: options in, exit code out. Nothing heavy is imported before a command needs it.

Each command has a file of its own, which calls one function of a room and shows what comes back.
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
from xpipe.cli.check import check
from xpipe.cli.clean import clean
from xpipe.cli.convert import convert
from xpipe.cli.doctor import doctor
from xpipe.cli.evaluate import evaluate
from xpipe.cli.plan import plan
from xpipe.cli.run import run
from xpipe.cli.show import show
from xpipe.cli.synth import synth
from xpipe.cli.verify import verify
from xpipe.errors import INTERRUPTED, XpipeError, printable, printable_lines
from xpipe.ground.library_threads import start_with_one_thread

COMMANDS = (run, plan, check, convert, synth, evaluate, show, clean, verify, doctor)


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


for command in COMMANDS:
    cli.add_command(command)


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
