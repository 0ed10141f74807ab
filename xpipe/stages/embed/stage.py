"""Stage embed: one vector per label, from the groups that have the label; one chunk of labels per task.

Holds no algorithm: that is `eagle.embed`. Stage assign reads the vectors where its method is the same. Stage emit
writes them beside the labels of trees.
"""

from __future__ import annotations

from typing import Any

from xpipe.engine.context import Context
from xpipe.engine.manifest import Artifact
from xpipe.engine.messages import Unit
from xpipe.engine.stage import Estimate, Produced, Stage
from xpipe.stages.embed.params import SPLIT, EmbedParams, embedding_identity
from xpipe.stages.matrices import entries_of, locate, rows_of


def identity(params: EmbedParams, inputs: dict[str, Artifact], store: Any) -> dict[str, Any]:
    """What the output depends on besides the inputs."""
    return embedding_identity(params)


def estimate(params: EmbedParams, inputs: dict[str, Artifact]) -> Estimate:
    """The most memory that one label can need: all rows, gathered and renumbered."""
    features = inputs["features"]
    return Estimate(inputs["group_labels"].about["n_columns"], 250 * 2**20 + 24 * entries_of(features, "train"))


def run(context: Context[EmbedParams]) -> Produced:
    """Cut the labels into chunks, embed each chunk, and sum up."""
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
        options=params.options(),
        backend=context.backend,
    )
    (plan,) = context.map("plan", plan_labels, [Unit("labels", 0)], shared, doing="planning")
    embedded = context.map("labels", work.embed_chunk, plan.result.units(), shared, doing="embedding")
    entries = [entry for made in embedded for entry in made.files]
    about = {
        "n_columns": inputs["features"].about["n_columns"],
        "rows": {SPLIT: n_labels},
        "samples": rows_of(inputs["features"], "train"),
        "made": embedding_identity(params),
    }
    summary = {
        "rows": n_labels,
        "method": params.method,
        "entries": sum(entry.entries or 0 for entry in entries),
        "objective": [sum(values) for values in zip(*(made.result.objective for made in embedded), strict=True)],
    }
    return Produced({"label_embedding": (entries, about)}, summary)


def describe(summary: dict[str, Any]) -> str:
    """One line about what was made."""
    first, last = summary["objective"][0], summary["objective"][-1]
    return f"{summary['method']}: {summary['entries']:,} entries; objective {first:,.0f} -> {last:,.0f}"


def compile_kernels() -> None:
    """Compile the kernels with a tiny problem."""
    import numpy as np
    import scipy.sparse as sp

    from xpipe.eagle import embed

    X = sp.csr_matrix(np.eye(4, dtype=np.float32))
    Y1 = sp.csr_matrix(np.repeat(np.eye(2, dtype=np.float32), 2, axis=0))
    embed(X, Y1, sp.csr_matrix(np.ones((2, 2), dtype=np.float32)), trace=True, threads=1)


STAGE = Stage(
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
    kernels="eagle",
    counts="labels",
    describe=describe,
)
