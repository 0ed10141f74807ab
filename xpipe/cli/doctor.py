"""`xpipe doctor`: examines this machine. Holds no check: `examination` does them."""

from __future__ import annotations

import sys

import click


@click.command(short_help="Examine this machine: versions, memory, disk, GPU.")
def doctor() -> None:
    """Examine this machine: versions, memory, disk, GPU, compiled-code cache."""
    from xpipe.cli import run_tables
    from xpipe.cli.examination import examine

    checks = examine()
    run_tables.show_doctor(checks)
    sys.exit(5 if any(check.ok is False for check in checks) else 0)
