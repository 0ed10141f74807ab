"""Stage assign: labels of groups become labels of samples, a chunk of labels at a time. The methods are `eagle`.

Orchestration only: what a worker does with a chunk of labels is in `assign_labels`. `discriminative` and `auto` first
make their choices in one task, from labels of groups set aside.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from xpipe.engine.stage import Estimate, Params, Produced, Stage, canonical_params
from xpipe.stages.matrices import entries_of, locate, matrix_about, part_rows, rows_of

CHOOSING = ("auto", "discriminative")
SCORES = {"baseline": "none", "discriminative": "posterior"}  # what a method's scores are; of others similarities


class AssignParams(Params):
    """Section `assign`: which samples of a group get its labels."""

    method: Literal["auto", "baseline", "eagle0", "eagle", "centred", "discriminative"] = "auto"
    steps: int = Field(default=20, ge=0)  # of eagle
    step_size: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    owners: Literal["one", "posterior"] = "posterior"  # of discriminative, as are the next three
    ridge: float | None = Field(
        default=None, gt=0, allow_inf_nan=False
    )  # chosen where it is not given, as is the threshold
    threshold: float | None = Field(default=None, ge=0, le=1)
    rounds: int = Field(default=10, ge=1)


def identity(params: AssignParams, inputs: dict, store: Any) -> dict:
    """A method's own parameters: steps of eagle do not make another centred assignment."""
    own = {
        "eagle": {"steps", "step_size"},
        "discriminative": {"owners", "ridge", "threshold", "rounds"},
    }
    others = [options for method, options in own.items() if params.method not in (method, "auto")]
    return canonical_params(params, leave_out=set().union(*others))


def uses_backend(params: AssignParams) -> bool:
    """`auto` may end with a method that does."""
    return params.method not in ("baseline", "discriminative")


def estimate(params: AssignParams, inputs: dict) -> Estimate:
    """The most a label can need: all rows, gathered and renumbered, or with their leading coordinates."""
    features = inputs["features"]
    rows, entries = rows_of(features, "train"), entries_of(features, "train")
    needed = {"baseline": 4 * entries}.get(params.method, 24 * entries)
    if params.method in CHOOSING:
        directions = min(1024, max(16, (1 << 26) // features.about["n_columns"]))
        needed = max(needed, 16 * entries + 4 * directions * (rows + 4 * features.about["n_columns"]))
    return Estimate(rows, 250 * 2**20 + needed)


def usable_embedding(params: AssignParams, inputs: dict) -> list[str] | None:
    """The stored label vectors, where they are what this method would compute."""
    from xpipe.stages.embed.stage import EmbedParams, facts

    if "label_embedding" not in inputs or params.method not in ("eagle0", "eagle"):
        return None
    made = facts(EmbedParams(method=params.method, steps=params.steps, step_size=params.step_size))
    artifact = inputs["label_embedding"]
    return locate(artifact) if artifact.about["made"] == made else None


def run(context: Any) -> Produced:
    from xpipe.stages.label_chunks import CHUNK_ENTRIES, units_of

    inputs, params = context.inputs, context.params
    features, group_labels = inputs["features"], inputs["group_labels"]
    n_samples, n_labels = rows_of(features, "train"), group_labels.about["n_columns"]
    shared = {
        "features": locate(features),
        "membership": locate(inputs["membership"]),
        "group_labels": locate(group_labels),
        "embedding": usable_embedding(params, inputs),
        "truth": locate(inputs["labels"]) if "labels" in inputs else None,
        "params": params.model_dump(mode="json"),
        "method": params.method,
        "cuts": part_rows(features, "train"),
        "n_labels": n_labels,
        "chunk_entries": CHUNK_ENTRIES,
        "seed": context.seed,
        "backend": context.backend,
    }
    (plan,) = context.map("plan", plan_labels, [{"unit": "labels", "rows": 0}], shared)
    chosen: dict = {}
    if params.method in CHOOSING:
        (choice,) = context.map("choice", make_choice, [{"unit": "choice", "rows": 0}], shared)
        chosen = {"choice": choice["result"]}
        shared["choice"], shared["method"] = choice["result"], choice["result"]["method"]
    chunks = context.map("labels", assign_chunks, units_of(plan["result"]["chunks"]), shared)
    shared["chunks"] = [entry["path"] for receipt in chunks for entry in receipt["files"]]
    (gathered,) = context.map("rows", gather_rows, [{"unit": "train", "rows": 0}], shared)
    about = matrix_about(n_labels, features.about["part_rows"], {"train": n_samples})
    about["scores"] = SCORES.get(shared["method"], "similarity")
    traces = [receipt["result"]["objective"] for receipt in chunks if "objective" in receipt["result"]]
    summary = {
        "rows": n_labels,
        "method": shared["method"],
        "allowed": sum(receipt["result"]["allowed"] for receipt in chunks),
        **gathered["result"],
        **({"objective": [sum(step) for step in zip(*traces, strict=True)]} if traces else {}),
        **chosen,
    }
    scratch = ("owners", "mean", "metric")
    return Produced({"assigned_labels": (gathered["files"], about)}, summary, scratch=scratch)


def plan_labels(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages import label_chunks

    with_mean = shared["method"] in ("centred", "auto")
    yield units[0]["unit"], *label_chunks.plan(folder, shared, with_mean)


def make_choice(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages.assign import work as assign_labels

    yield units[0]["unit"], *assign_labels.choose_method(folder, shared)


def assign_chunks(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages.assign import work as assign_labels

    for unit in units:
        yield unit["unit"], *assign_labels.assign_chunk(folder, unit, shared)


def gather_rows(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages.assign import work as assign_labels

    yield units[0]["unit"], *assign_labels.gather(folder, shared)


def compile_kernels() -> None:
    import numpy as np
    import scipy.sparse as sp

    from xpipe.eagle import impute

    X = sp.csr_matrix(np.tile(np.eye(4, dtype=np.float32), (20, 1)))
    Y1 = sp.csr_matrix(np.repeat(np.eye(40, dtype=np.float32), 2, axis=0))
    Y2 = sp.csr_matrix(np.tile(np.eye(2, dtype=np.float32), (20, 1)))
    impute(X, Y1, Y2, "auto", threads=1)


ASSIGN = Stage(
    name="assign",
    section="assign",
    version=4,
    reads=("features", "membership", "group_labels", "label_embedding?", "labels?"),
    writes=("assigned_labels",),
    params=AssignParams,
    run=run,
    seeded=True,
    identity=identity,
    uses_backend=uses_backend,
    libraries=("numba", "numpy", "pyarrow", "scipy"),
    estimate=estimate,
    compile=compile_kernels,
    counts="labels",
)
