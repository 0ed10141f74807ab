"""`xpipe verify`: proves which label sets an output layer or an index can and cannot give. Holds no proof."""

from __future__ import annotations

import sys
from pathlib import PurePath
from typing import Any, get_args

import click

from xpipe.argmaxability.options import BOX, EPS, EXPLAINED, INPUTS, RADIUS, Inputs, Mode, Radius
from xpipe.cli.options import text_options
from xpipe.errors import ConfigError

# what a row is called, and the mode that is meant where none is given
ROWS = {"weights": ("label", "sign"), "index": ("document", "topk"), "lm": ("token", "argmax")}


@click.command(short_help="Prove which label sets a layer or an index can and cannot give.")
@click.option("--weights", help="Weights of an output layer, labels x inputs: .npy, .npz or .safetensors.")
@click.option("--index", help="Embeddings of an index, documents x dimensions, in such a file; mode topk.")
@click.option("--lm", help="Output embeddings of a language model, tokens x inputs, in such a file; mode argmax.")
@click.option("--key", help="Name of the weights in a file that holds several arrays.")
@click.option("--bias", help="Bias, one number per label, in a file of its own.")
@click.option("--bias-key", help="Name of the bias in its file, or in that of the weights.")
@click.option("--no-bias", is_flag=True, help="Leave out the bias that lies beside the weights.")
@click.option("--labels", "sets", help="Label sets: XMC text, split label file, .npz or .parquet.")
@click.option("--qrels", help="Answer sets of queries: TREC or BEIR judgements.")
@click.option("--names", help="Names of the rows, one per line: labels, document ids, tokens.")
@click.option("--out", help="Parquet file for the verdicts and their certificates. Default: WEIGHTS.verdicts.parquet.")
@click.option("--mode", type=click.Choice(get_args(Mode)), help="Compare scores with 0 (sign), or with each other.")
@click.option("--inputs", type=click.Choice(get_args(Inputs)), default=INPUTS, show_default=True)
@click.option("--radius", type=click.Choice(get_args(Radius)), default=RADIUS, show_default=True)
@click.option("--eps", type=float, default=EPS, show_default=True, help="Radius above which a set is argmaxable.")
@click.option("--box", type=float, default=BOX, show_default=True, help="Inputs lie in [-box, box].")
@click.option("--threads", type=click.IntRange(1), help="Default: one per usable core.")
@click.option("--memory-limit", help="Bytes to hold beyond the weights, such as 2GiB: fewer threads if need be.")
@click.option(
    "--explain", "n_explained", type=click.IntRange(0), default=EXPLAINED, show_default=True, help="Sets to explain."
)
@text_options
@click.pass_obj
def verify(options: dict[str, Any], /, **given: Any) -> None:
    """Prove for every label set whether some input gives it.

    Mode sign: the layer scores its labels above 0 and all others below. Mode topk: it scores them above all others.
    Mode argmax: the same for each label by itself; without --labels, all are asked about.

    Exit code: 0 if all sets are argmaxable, 1 if not.
    """
    from xpipe.cli.progress import Progress
    from xpipe.cli.verify_command import verify_files
    from xpipe.cli.verify_order import verify_order
    from xpipe.engine.places import check_file

    noun = take_rows(given)
    given["out"] = given["out"] or default_out(given["weights"])
    check_file("--out", given["out"])
    act = verify_files if given.pop("mode_is_sign") else verify_order
    if act is verify_order:
        given["noun"] = noun
    else:
        for name in ("mode", "qrels"):
            given.pop(name)
    with Progress(mode=options["progress"]) as progress:
        shown, all_argmaxable = act(progress=progress, **given)
    shown()
    sys.exit(0 if all_argmaxable else 1)


def default_out(weights: str) -> str:
    """Where verdicts go if nobody says: into the current folder, named after the weights."""
    return f"{PurePath(weights.rstrip('/')).stem or 'weights'}.verdicts.parquet"


def take_rows(given: dict[str, Any]) -> str:
    """What a row is called. Leaves in `given` the path as `weights`, the mode, and whether it is sign.

    Raises ConfigError unless there is one file of rows, and sets where the mode needs them.
    """
    paths = {name: given.pop(name) for name in ROWS}
    chosen = [name for name, path in paths.items() if path]
    if len(chosen) != 1:
        raise ConfigError(
            "one file of weights is needed" if not chosen else f"--{' and --'.join(chosen)} are given",
            fix="give one of --weights, --index and --lm",
        )
    noun, mode = ROWS[chosen[0]]
    given["weights"] = paths[chosen[0]]
    given["mode"] = given["mode"] or mode
    given["mode_is_sign"] = given["mode"] == "sign"
    if given["sets"] and given["qrels"]:
        raise ConfigError("--labels and --qrels are both given", fix="give one of them")
    if given["mode_is_sign"] and given["qrels"]:
        raise ConfigError("--qrels are of an index, whose scores are compared with each other", fix="--mode topk")
    if given["mode"] != "argmax" and not (given["sets"] or given["qrels"]):
        raise ConfigError(f"mode {given['mode']} needs label sets", fix="give --labels, or --qrels for an index")
    return noun
