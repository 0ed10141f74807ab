"""Stage embed: a vector for every label from the groups that carry it, a chunk of labels at a time.

Orchestration only: the algorithm is `eagle.embed`. Assignments by the same method read the vectors; emitted trees get
them beside their labels.
"""

from __future__ import annotations

from typing import Any

from xpipe.engine.context import Context
from xpipe.engine.messages import Unit
from xpipe.engine.stage import Estimate, Produced, Stage
from xpipe.stages.embed.params import SPLIT, EmbedParams, facts
from xpipe.stages.matrices import entries_of, locate, rows_of


def identity(params: EmbedParams, inputs: dict, store: Any) -> dict:
    return facts(params)


def estimate(params: EmbedParams, inputs: dict) -> Estimate:
    """The most a label can need: all rows, gathered and renumbered."""
    features = inputs["features"]
    return Estimate(inputs["group_labels"].about["n_columns"], 250 * 2**20 + 24 * entries_of(features, "train"))


def run(context: Context[EmbedParams]) -> Produced:
    from xpipe.stages.embed import work
    from xpipe.stages.label_chunks import CHUNK_ENTRIES, plan_labels

    inputs, params = context.inputs, context.params
    n_labels = inputs["group_labels"].about["n_columns"]
    shared = work.Embedding(
        features=locate(inputs["features"]),
        membership=locate(inputs["membership"]),
        group_labels=locate(inputs["group_labels"]),
        n_labels=n_labels,
        with_mean=False,
        chunk_entries=CHUNK_ENTRIES,
        steps=0 if params.method == "eagle0" else params.steps,
        step_size=1.0 if params.method == "eagle0" else params.step_size,
        smallest=params.smallest,
        backend=context.backend,
    )
    (plan,) = context.map("plan", plan_labels, [Unit("labels", 0)], shared)
    embedded = context.map("labels", work.embed_chunk, plan.result.units(), shared)
    entries = [entry for made in embedded for entry in made.files]
    about = {
        "n_columns": inputs["features"].about["n_columns"],
        "rows": {SPLIT: n_labels},
        "samples": rows_of(inputs["features"], "train"),
        "made": facts(params),
    }
    summary = {
        "rows": n_labels,
        "method": params.method,
        "entries": sum(entry.entries or 0 for entry in entries),
        "objective": [sum(step) for step in zip(*(made.result.objective for made in embedded), strict=True)],
    }
    return Produced({"label_embedding": (entries, about)}, summary)


def describe(summary: dict) -> str:
    first, last = summary["objective"][0], summary["objective"][-1]
    return f"{summary['method']}: {summary['entries']:,} entries; objective {first:,.0f} -> {last:,.0f}"


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
    describe=describe,
)
