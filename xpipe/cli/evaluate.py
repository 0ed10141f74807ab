"""`xpipe evaluate`: measures scores against true labels. Holds no metric."""

from __future__ import annotations

from typing import Any

import click

from xpipe.cli.options import text_options
from xpipe.ground.release import __version__
from xpipe.metrics.options import RESAMPLES, K


@click.command(short_help="Measure scores against true labels: P@k, nDCG@k, PSP@k and more.")
@click.option("--truth", required=True, metavar="PATH", help="True labels: a file, or a dataset's folder.")
@click.option("--scores", required=True, metavar="FILE", help="Scores: .npz, .parquet (lists indices, values) or text.")
@click.option("--split", default="test", show_default=True, help="Split of a dataset's folder.")
@click.option("-k", type=click.IntRange(1), default=K, show_default=True, help="Measure at 1..k.")
@click.option("--train", metavar="FILE", help="Labels of the training rows, for propensities and label frequencies.")
@click.option("--dataset", metavar="NAME", help="Use the propensity constants usual for this dataset.")
@click.option("--propensity", nargs=2, type=float, metavar="A B", help="Propensity constants.")
@click.option("--filter-labels", metavar="FILE", help="Pairs `row label` that do not count.")
@click.option("--remove-empty", is_flag=True, help="Leave out rows without true labels.")
@click.option("--threshold", type=float, help="Also F1 of all predictions with at least this score.")
@click.option(
    "--resamples", type=click.IntRange(0), default=RESAMPLES, show_default=True, help="For intervals; 0: none."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--out", metavar="FILE", help="Write all results as JSON.")
@text_options
def evaluate(out: str | None, **options: Any) -> None:
    """Measure SCORES against TRUTH: metrics at 1..k with intervals, and by label frequency."""
    from xpipe.cli.metric_tables import show_evaluation
    from xpipe.engine.places import check_file
    from xpipe.ground import files
    from xpipe.ground.checked_json import dump_json
    from xpipe.ground.quantities import timestamp
    from xpipe.metrics.evaluation import evaluate as evaluate_files

    if out:
        check_file("--out", out)
    results = evaluate_files(**options)
    if out:
        files.write_bytes(files.local(out), dump_json({"made": timestamp(), "xpipe": __version__, **results}))
    show_evaluation(results)
