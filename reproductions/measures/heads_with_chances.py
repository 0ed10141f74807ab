"""Heads on assigned labels, taken as certain and with their chances: P@1, P@3 and P@5. Holds no head of its own."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reproductions.configuration import Measured, Table
from xpipe.errors import DataError

RANKS = (1, 3, 5)
CERTAIN, CHANCES = "certain", "with chances"


def measure(options: Mapping[str, Any], data: str | None) -> Measured:
    """P@1, P@3 and P@5 in percent of every head, on owners by `discriminative` in random groups.

    options: size (of a group), seed, heads (name -> a head as in a pipeline file).
    """
    if data is None:
        raise DataError("no data", why="heads are trained on a dataset of the user's", fix="name its folder")
    figures, rows = {}, []
    with tempfile.TemporaryDirectory(prefix="xpipe-reproduction-") as scratch:
        folders = emit_owners(data, scratch, options["size"], options["seed"])
        for name, head in options["heads"].items():
            cells = []
            for how, folder in folders.items():
                found = precisions(folder, head, options["seed"])
                cells.append(" / ".join(f"{value:.1f}" for value in found))
                figures |= {f"{name}, {how}: P@{k}": value for k, value in zip(RANKS, found, strict=True)}
            rows.append((name, *cells))
    return Measured(figures, (Table("P@1 / P@3 / P@5 on the test rows", ("", *folders), tuple(rows)),))


def emit_owners(data: str, scratch: str, size: int, seed: int) -> dict[str, str]:
    """The emitted heads/ dataset, and a copy that says nothing of chances."""
    from xpipe import config
    from xpipe.cli.progress import Progress
    from xpipe.engine import execute
    from xpipe.ground import backend

    path = Path(scratch) / "pipeline.yaml"
    path.write_text(
        f"name: owners\nseed: {seed}\ndata: {{dir: {json.dumps(os.path.abspath(data))}}}\n"
        f"group: {{rule: random, size: {size}}}\nassign: {{method: discriminative}}\n"
        f"emit: {{datasets: [heads], formats: [parquet]}}\ncluster: none\nreport: none\nout: {scratch}/out\n"
        f"store: {scratch}/.store\n",
        encoding="utf-8",
    )
    with Progress(mode="quiet") as progress:
        execute.run(config.load(path), progress, backend.choose("cpu"))
    chances, certain = os.path.join(scratch, "out", "heads"), os.path.join(scratch, "certain")
    shutil.copytree(chances, certain)
    about = Path(certain) / "dataset.json"
    about.chmod(0o644)
    kept = {key: value for key, value in json.loads(about.read_text()).items() if key != "label_scores"}
    about.write_text(json.dumps(kept))
    return {CERTAIN: certain, CHANCES: chances}


def precisions(folder: str, head: Mapping[str, Any], seed: int) -> list[float]:
    """P@k in percent of a head that is trained on a dataset, on its test rows."""
    from xpipe.formats.parquet import read_about, read_split
    from xpipe.heads import TrainOptions, matrix_batches, train_head
    from xpipe.heads.model import as_matrix
    from xpipe.metrics import precision
    from xpipe.stages.train_heads.params import HeadParams

    params = HeadParams(**head, calibrate="none")
    model = train_head(folder, TrainOptions(**params.train_options(read_about(folder), seed, "cpu"))).model
    X, Y = read_split(folder, "test")
    ranked = model.rank(matrix_batches(X), max(RANKS), calibrated=False)
    scores = as_matrix(ranked.labels, ranked.logits, Y.shape[1])  # probabilities of quasibinary are cut at 1, and tie
    found = precision(scores, Y, k=max(RANKS))
    return [100 * float(found[k - 1]) for k in RANKS]
