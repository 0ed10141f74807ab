"""Stage assign: labels of groups become labels of samples, a chunk of labels at a time. The methods are `eagle`.

Orchestration only: what a worker does with a chunk of labels is in `work`. `discriminative` and `auto` first
make their choices in one task, from labels of groups set aside.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from xpipe.engine.context import Context
from xpipe.engine.messages import Unit
from xpipe.engine.params import canonical_params
from xpipe.engine.stage import Estimate, Produced, Stage
from xpipe.engine.store import Artifact
from xpipe.stages.assign.params import AssignParams
from xpipe.stages.embed.params import EmbedParams, facts
from xpipe.stages.matrices import MatrixRef, entries_of, locate, matrix_about, part_rows, rows_of

if TYPE_CHECKING:
    from xpipe.stages.assign import work

CHOOSING = ("auto", "discriminative")
SCORES = {"baseline": "none", "discriminative": "posterior"}  # what a method's scores are; of others similarities


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


def usable_embedding(params: AssignParams, inputs: dict[str, Artifact]) -> MatrixRef | None:
    """The stored label vectors, where they are what this method would compute."""
    if "label_embedding" not in inputs or params.method not in ("eagle0", "eagle"):
        return None
    made = facts(EmbedParams(method=params.method, steps=params.steps, step_size=params.step_size))
    artifact = inputs["label_embedding"]
    return locate(artifact) if artifact.about["made"] == made else None


def run(context: Context[AssignParams]) -> Produced:
    from xpipe.stages.assign import work
    from xpipe.stages.label_chunks import plan_labels

    shared = _problem(context)
    (plan,) = context.map("plan", plan_labels, [Unit("labels", 0)], shared)
    choice = None
    if context.params.method in CHOOSING:
        (chosen,) = context.map("choice", work.choose_method, [Unit("choice", 0)], shared)
        choice = chosen.result
    settled = work.Settled(shared, choice.method if choice else context.params.method, choice)
    chunks = context.map("labels", work.assign_chunk, plan.result.units(), settled)
    owners = work.Owners(
        paths=tuple(entry.path for made in chunks for entry in made.files),
        features=shared.features,
        truth=locate(context.inputs["labels"]) if "labels" in context.inputs else None,
        cuts=tuple(part_rows(context.inputs["features"], "train")),
    )
    (gathered,) = context.map("rows", work.gather_rows, [Unit("train", 0)], owners)
    features = context.inputs["features"]
    about = matrix_about(shared.n_labels, features.about["part_rows"], {"train": rows_of(features, "train")})
    about["scores"] = SCORES.get(settled.method, "similarity")
    summary = _summary(shared.n_labels, settled, [made.result for made in chunks], gathered.result)
    return Produced({"assigned_labels": (gathered.files, about)}, summary)


def _problem(context: Context[AssignParams]) -> work.Problem:
    from xpipe.stages.assign import work
    from xpipe.stages.label_chunks import CHUNK_ENTRIES

    inputs, params = context.inputs, context.params
    return work.Problem(
        features=locate(inputs["features"]),
        membership=locate(inputs["membership"]),
        group_labels=locate(inputs["group_labels"]),
        n_labels=inputs["group_labels"].about["n_columns"],
        with_mean=params.method in ("centred", "auto"),
        chunk_entries=CHUNK_ENTRIES,
        params=params,
        embedding=usable_embedding(params, inputs),
        seed=context.seed,
        backend=context.backend,
    )


def _summary(
    n_labels: int, settled: work.Settled, chunks: list[work.ChunkFacts], gathered: work.GatherFacts
) -> dict[str, Any]:
    traces = [chunk.objective for chunk in chunks if chunk.objective is not None]
    found = {
        "rows": n_labels,
        "method": settled.method,
        "allowed": sum(chunk.allowed for chunk in chunks),
        "assigned": gathered.assigned,
    }
    if gathered.quality is not None:
        found |= dataclasses.asdict(gathered.quality)
    if traces:
        found["objective"] = [sum(step) for step in zip(*traces, strict=True)]
    if settled.choice is not None:
        found["choice"] = dataclasses.asdict(settled.choice)
    return found


def describe(summary: dict) -> str:
    found = f"{summary['method']}: {summary['assigned']:,} of {summary['allowed']:,} labels that groups allow"
    if "f1" in summary:
        quality = f"precision {summary['precision']}, recall {summary['recall']}, F1 {summary['f1']}"
        found += f"; against the true ones: {quality}"
    return found + (f"; chosen because {summary['choice']['why']}" if "choice" in summary else "")


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
    describe=describe,
)
