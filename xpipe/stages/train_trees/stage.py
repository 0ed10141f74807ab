"""Stage train: label trees on the emitted tree/ dataset.

Orchestration only: what a worker does is in `work`, the algorithm is `trees`. Heads are trained by a stage of their
own, `train_heads`, so that one can change without the other.
"""

from __future__ import annotations

from typing import Any

from xpipe.engine.context import Context, Counts
from xpipe.engine.messages import Unit
from xpipe.engine.params import canonical_params
from xpipe.engine.stage import Estimate, Outlook, Produced, Stage
from xpipe.errors import XpipeError
from xpipe.ground.quantities import format_bytes
from xpipe.stages.emit.stage import dataset_problem
from xpipe.stages.emitted_paths import MODELS_FOLDER, dataset_folder
from xpipe.stages.matrices import entries_of, rows_of
from xpipe.stages.train_trees.params import TrainParams

MODEL = "tree_model"


def has_tree(params: TrainParams) -> bool:
    """Whether a tree is asked for."""
    return params.tree is not None


def identity(params: TrainParams, inputs: dict[str, Any], store: Any) -> dict[str, Any]:
    """The options of the tree alone: it does not depend on the heads beside it."""
    assert params.tree is not None  # or the stage is off
    return {"tree": canonical_params(params.tree)}


def preflight(params: TrainParams, outlook: Outlook) -> list[XpipeError]:
    """Problems that can be known before the run: no tree dataset is emitted."""
    return dataset_problem("tree", "label trees are trained on", outlook)


def estimate(params: TrainParams, inputs: dict[str, Any]) -> Estimate:
    """Training rows; memory for the rows, for the sums of label rows, and for the gathered rows of a root."""
    features = inputs.get("features")
    if features is None:
        return Estimate()
    entries = entries_of(features, "train")
    return Estimate(rows_of(features, "train"), 250 * 2**20 + 40 * entries)


def run(context: Context[TrainParams]) -> Produced:
    """Plan the trees, train their units on the cluster, join them to the model."""
    from xpipe.stages.train_trees import work

    params = context.params.tree
    assert params is not None  # or the stage is off
    shared = work.Training(dataset_folder(context.inputs["datasets"].folder, "tree"), params, context.seed)
    (plan,) = context.map("plan", work.plan_trees, [Unit("trees", 0)], shared, doing="planning the trees")
    units = [
        work.TreeUnits(f"units-{number:05d}", cost, first, last)
        for number, (first, last, cost) in enumerate(plan.result.chunks)
    ]
    labels = Counts(plan.result.labels * plan.result.trees, "labels")
    trained = context.map(
        "units", work.train_units, units, shared, one_unit_per_task=True, doing="training", counts=labels
    )
    parts = work.Trained(shared, tuple(entry.path for made in trained for entry in made.files))
    (joined,) = context.map("model", work.join_trees, [Unit("model", 0)], parts, doing="joining the trees")
    shape = {"trees": plan.result.trees, "levels": plan.result.levels, "labels": plan.result.labels}
    summary = {
        "rows": plan.result.rows,
        **shape,
        "label_vectors": plan.result.label_vectors,
        "held_out": plan.result.held_out,
        "weights": joined.result.weights,
        "bytes": joined.result.bytes,
    }
    return Produced({MODEL: (joined.files, {})}, summary)


def describe(summary: dict[str, Any]) -> str:
    """What the console says about the stage."""
    shape = f"{summary['trees']} trees of {summary['levels']} levels for {summary['labels']:,} labels"
    return f"{shape}; {summary['weights']:,} weights, {format_bytes(summary['bytes'])}"


def compile_kernels() -> None:
    """Compile the kernels on a small problem."""
    import numpy as np
    import scipy.sparse as sp

    from xpipe.trees import LabelTree

    X = sp.csr_matrix(np.tile(np.eye(4, dtype=np.float32), (4, 1)))
    LabelTree(n_trees=1, max_leaf=2, arity=2).fit(X, X, threads=1).predict(X, k=2, threads=1)


STAGE = Stage(
    name="train",
    section="train",
    version=4,
    reads=("datasets", "features?"),
    writes=(MODEL,),
    params=TrainParams,
    run=run,
    seeded=True,
    exports=(MODEL,),
    outputs=(MODELS_FOLDER,),
    enabled=has_tree,
    preflight=preflight,
    identity=identity,
    libraries=("numba", "numpy", "pyarrow", "scipy"),
    estimate=estimate,
    compile=compile_kernels,
    kernels="trees",
    counts="labels",
    describe=describe,
)
