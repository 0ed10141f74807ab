"""`xpipe verify`: proves which label sets an output layer can and cannot predict. Holds no proof."""

from __future__ import annotations

import sys
from typing import Any, get_args

import click

from xpipe.argmaxability.options import BOX, EPS, EXPLAINED, RADIUS, Radius
from xpipe.cli.options import text_options


@click.command(short_help="Prove which label sets an output layer can and cannot predict.")
@click.option("--weights", required=True, help="Weights, labels x inputs: .npy, .npz or .safetensors.")
@click.option("--key", help="Name of the weights in a file that holds several arrays.")
@click.option("--bias", help="Bias, one number per label, in a file of its own.")
@click.option("--bias-key", help="Name of the bias in its file, or in that of the weights.")
@click.option("--no-bias", is_flag=True, help="Leave out the bias that lies beside the weights.")
@click.option("--labels", "sets", required=True, help="Label sets: XMC text, split label file, .npz or .parquet.")
@click.option("--names", help="Names of the labels, one per line, for the explanations.")
@click.option("--out", required=True, help="Parquet file for the verdicts and their certificates.")
@click.option("--radius", type=click.Choice(get_args(Radius)), default=RADIUS, show_default=True)
@click.option("--eps", type=float, default=EPS, show_default=True, help="Radius above which a set is argmaxable.")
@click.option("--box", type=float, default=BOX, show_default=True, help="Inputs lie in [-box, box].")
@click.option("--threads", type=click.IntRange(1), help="Default: one per usable core.")
@click.option(
    "--explain", "n_explained", type=click.IntRange(0), default=EXPLAINED, show_default=True, help="Sets to explain."
)
@text_options
@click.pass_obj
def verify(options: dict[str, Any], /, **given: Any) -> None:
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
