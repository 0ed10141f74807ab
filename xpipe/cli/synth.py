"""`xpipe synth`: writes a stand-in of a dataset. Holds no generator."""

from __future__ import annotations

from typing import Any

import click


@click.command(short_help="Write a stand-in of a catalog dataset.")
@click.argument("name")
@click.argument("out")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.pass_obj
def synth(options: dict[str, Any], name: str, out: str, seed: int) -> None:
    """Write a stand-in of the dataset NAME (e.g. eurlex-4k) to the folder OUT."""
    from xpipe.cli import run_tables
    from xpipe.cli.progress import Progress
    from xpipe.engine.places import check_folder
    from xpipe.synth import plan_pieces, synthesize

    check_folder("OUT", out)
    with Progress(mode=options["progress"]) as progress:
        bar = progress.stage(f"synth {name}", total=sum(piece.n_rows for piece in plan_pieces(name)), unit="rows")
        facts = synthesize(name, out, seed, progress=lambda done, _: bar.advance(done - bar.count))
    run_tables.show_synth(name, out, facts)
