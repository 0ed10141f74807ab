"""Stage assign: labels of groups become labels of samples, a chunk of labels at a time. The methods are `eagle`.

Orchestration only: what a worker does with a chunk of labels is in `assign_labels`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from xpipe.stages.matrices import entries_of, locate, matrix_about, part_rows, rows_of
from xpipe.stages.stage import Estimate, Params, Produced, Stage


class AssignParams(Params):
    """Section `assign`: which samples of a group get its labels."""

    method: Literal["baseline", "eagle0", "eagle", "centred"] = "centred"
    steps: int = Field(default=20, ge=0)  # of eagle
    step_size: float = Field(default=1.0, gt=0)


def identity(params: AssignParams, inputs: dict, store: Any) -> dict:
    if params.method == "eagle":
        return params.model_dump(mode="json")
    return {"method": params.method}


def estimate(params: AssignParams, inputs: dict) -> Estimate:
    """The most a label can need: all rows, gathered and renumbered."""
    features = inputs["features"]
    per_entry = 4 if params.method == "baseline" else 24
    return Estimate(rows_of(features, "train"), 250 * 2**20 + per_entry * entries_of(features, "train"))


def run(context: Any) -> Produced:
    inputs, params = context.inputs, context.params
    features, group_labels = inputs["features"], inputs["group_labels"]
    n_samples, n_labels = rows_of(features, "train"), group_labels.about["n_columns"]
    shared = {
        "features": locate(features),
        "membership": locate(inputs["membership"]),
        "group_labels": locate(group_labels),
        "truth": locate(inputs["labels"]) if "labels" in inputs else None,
        "params": params.model_dump(mode="json"),
        "cuts": part_rows(features, "train"),
        "n_labels": n_labels,
    }
    (plan,) = context.map("plan", plan_labels, [{"unit": "labels", "rows": 0}], shared)
    units = [
        {"unit": f"labels-{number:05d}", "first": first, "last": last, "rows": last - first}
        for number, (first, last) in enumerate(plan["result"]["chunks"])
    ]
    chunks = context.map("labels", assign_chunks, units, shared)
    shared["chunks"] = [entry["path"] for receipt in chunks for entry in receipt["files"]]
    (gathered,) = context.map("rows", gather_rows, [{"unit": "train", "rows": 0}], shared)
    about = matrix_about(n_labels, features.about["part_rows"], {"train": n_samples})
    summary = {"rows": n_samples, "method": params.method, **gathered["result"]}
    return Produced({"assigned_labels": (gathered["files"], about)}, summary, scratch=("owners", "mean"))


def plan_labels(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages import assign_labels

    yield units[0]["unit"], *assign_labels.plan(folder, shared)


def assign_chunks(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages import assign_labels

    for unit in units:
        yield unit["unit"], *assign_labels.assign_chunk(folder, unit, shared)


def gather_rows(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages import assign_labels

    yield units[0]["unit"], *assign_labels.gather(folder, shared)


def compile_kernels() -> None:
    import numpy as np
    import scipy.sparse as sp

    from xpipe.eagle import impute

    X = sp.csr_matrix(np.eye(4, dtype=np.float32))
    Y1 = sp.csr_matrix(np.repeat(np.eye(2, dtype=np.float32), 2, axis=0))
    for method in ("eagle", "centred"):
        impute(X, Y1, sp.csr_matrix(np.ones((2, 2), dtype=np.float32)), method, threads=1)


ASSIGN = Stage(
    name="assign",
    section="assign",
    version=1,
    reads=("features", "membership", "group_labels", "labels?"),
    writes=("assigned_labels",),
    params=AssignParams,
    run=run,
    identity=identity,
    estimate=estimate,
    compile=compile_kernels,
)
