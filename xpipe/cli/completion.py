"""What a shell completes: pipelines, runs and files, besides the names of commands and options. Runs no command.

`_XPIPE_COMPLETE=bash_source xpipe` prints what a shell needs (also zsh_source, fish_source).
"""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import CompletionItem, shell_complete

VARIABLE = "_XPIPE_COMPLETE"


def answer_shell(cli: click.Command) -> int | None:
    """Answer a shell that asks what comes next, and return the exit code. None where no shell asks."""
    asked = os.environ.get(VARIABLE)
    return None if not asked else shell_complete(cli, {}, "xpipe", VARIABLE, asked)


def complete_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files and folders, which the shell itself completes."""
    return [CompletionItem(incomplete, type="file")]


def complete_pipelines(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of the pipelines of the package; else files."""
    from xpipe.config.examples import example_pipelines

    names = [CompletionItem(name) for name in example_pipelines() if name.startswith(incomplete)]
    return names or complete_files(context, parameter, incomplete)


def complete_runs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of runs and matrices below runs/; else files."""
    from xpipe.engine.results import RESULTS, RUNS, TABLE

    found = [path.parent.name for file in (RESULTS, TABLE) for path in sorted(Path(RUNS).glob(f"*/{file}"))]
    names = [CompletionItem(name) for name in found if name.startswith(incomplete)]
    return names or complete_files(context, parameter, incomplete)
