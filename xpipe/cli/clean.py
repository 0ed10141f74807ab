"""`xpipe clean`: removes from the store what no finished run uses. Holds no removing: `engine.prune` does that."""

from __future__ import annotations

import click


@click.command(short_help="Free the store of what no finished run uses.")
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
