"""Stage embed: a vector for every label from the groups that carry it, a chunk of labels at a time.

Orchestration only: the algorithm is `eagle.embed`. Assignments by the same method read the vectors; emitted trees get
them beside their labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from xpipe.engine.stage import Estimate, Params, Produced, Stage, canonical_params
from xpipe.stages.matrices import entries_of, locate, part_path, rows_of

SPLIT = "labels"  # rows are labels here


class EmbedParams(Params):
    """Section `embed`: the label vectors of EAGLE."""

    method: Literal["eagle0", "eagle"] = "eagle"
    steps: int = Field(default=20, ge=0)  # of eagle
    step_size: float = Field(default=1.0, gt=0)
    smallest: float = Field(default=0.0, ge=0, lt=1)  # entries not larger are left out; 1e-7 halves wide embeddings


def facts(params: EmbedParams) -> dict:
    """What the vectors depend on: assign compares it with its own parameters."""
    if params.method == "eagle0":
        return {**canonical_params(params, leave_out=("method", "step_size")), "steps": 0}
    return canonical_params(params, leave_out=("method",))


def identity(params: EmbedParams, inputs: dict, store: Any) -> dict:
    return facts(params)


def estimate(params: EmbedParams, inputs: dict) -> Estimate:
    """The most a label can need: all rows, gathered and renumbered."""
    features = inputs["features"]
    return Estimate(inputs["group_labels"].about["n_columns"], 250 * 2**20 + 24 * entries_of(features, "train"))


def run(context: Any) -> Produced:
    from xpipe.stages.label_chunks import CHUNK_ENTRIES, units_of

    inputs, params = context.inputs, context.params
    n_labels = inputs["group_labels"].about["n_columns"]
    shared = {
        **{name: locate(inputs[name]) for name in ("features", "membership", "group_labels")},
        "params": {"steps": 0, "step_size": 1.0, **facts(params)},
        "n_labels": n_labels,
        "chunk_entries": CHUNK_ENTRIES,
        "backend": context.backend,
    }
    (plan,) = context.map("plan", plan_labels, [{"unit": "labels", "rows": 0}], shared)
    receipts = context.map("labels", embed_chunks, units_of(plan["result"]["chunks"]), shared)
    entries = [entry for receipt in receipts for entry in receipt["files"]]
    about = {
        "n_columns": inputs["features"].about["n_columns"],
        "rows": {SPLIT: n_labels},
        "samples": rows_of(inputs["features"], "train"),
        "made": facts(params),
    }
    objective = [sum(step) for step in zip(*(receipt["result"]["objective"] for receipt in receipts), strict=True)]
    summary = {
        "rows": n_labels,
        "method": params.method,
        "entries": sum(entry["entries"] for entry in entries),
        "objective": objective,
    }
    return Produced({"label_embedding": (entries, about)}, summary)


def plan_labels(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages import label_chunks

    yield units[0]["unit"], *label_chunks.plan(folder, shared, with_mean=False)


def embed_chunks(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    import numpy as np

    from xpipe.eagle import embed
    from xpipe.formats.parts import write_part
    from xpipe.ground import files
    from xpipe.ground.sparse import to_triple
    from xpipe.stages.label_chunks import groups_of, rows_of_samples

    for unit in units:
        samples, Y1, Y2 = groups_of(unit, shared)
        X = rows_of_samples(shared, samples)
        E, objective = embed(X, Y1, Y2, **shared["params"], trace=True, threads=1, backend=shared["backend"])
        path = part_path("label_embedding", SPLIT, unit["number"])
        made = write_part(files.join(folder, path), np.arange(unit["first"], unit["last"]), to_triple(E))
        result = {"objective": np.asarray(objective, dtype=np.float64).tolist()}
        yield unit["unit"], [{"path": path, "split": SPLIT, **made}], result


def compile_kernels() -> None:
    import numpy as np
    import scipy.sparse as sp

    from xpipe.eagle import impute

    X = sp.csr_matrix(np.eye(4, dtype=np.float32))
    Y1 = sp.csr_matrix(np.repeat(np.eye(2, dtype=np.float32), 2, axis=0))
    impute(X, Y1, sp.csr_matrix(np.ones((2, 2), dtype=np.float32)), "eagle", threads=1)


EMBED = Stage(
    name="embed",
    section="embed",
    version=1,
    reads=("features", "membership", "group_labels"),
    writes=("label_embedding",),
    params=EmbedParams,
    run=run,
    identity=identity,
    uses_backend=lambda params: True,
    libraries=("numba", "numpy", "pyarrow", "scipy"),
    estimate=estimate,
    compile=compile_kernels,
    counts="labels",
)
