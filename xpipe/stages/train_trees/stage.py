"""Stage train: label trees on the emitted tree/ dataset.

Orchestration only: what a worker does is in `work`, the algorithm is `trees`. Heads are trained by a stage of their
own, `train_heads`, so that one can change without the other.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any

from xpipe.engine.context import Context, Counts
from xpipe.engine.messages import Finished, Unit
from xpipe.engine.params import canonical_params
from xpipe.engine.stage import Estimate, Outlook, Produced, Stage
from xpipe.errors import XpipeError
from xpipe.ground.quantities import format_bytes
from xpipe.stages.emit.stage import dataset_problem
from xpipe.stages.emitted_paths import MODELS_FOLDER, dataset_folder
from xpipe.stages.matrices import entries_of, rows_of
from xpipe.stages.train_trees.params import TrainParams, TreeParams

if TYPE_CHECKING:
    from xpipe.stages.train_trees.messages import (
        ForestPlan,
        Learnt,
        ModelFacts,
        Trained,
        Training,
        TreeUnits,
        UnitOfParts,
    )
    from xpipe.stages.train_trees.stored_rows import LabelFacts

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
    """Training rows; memory for the rows of a root, once as they are stored and once as they are gathered."""
    features = inputs.get("features")
    if features is None or params.tree is None:
        return Estimate()
    rows, entries = rows_of(features, "train"), entries_of(features, "train")
    stored = min(8 * entries, 2**30)
    return Estimate(rows, 300 * 2**20 + stored + 8 * entries + 4 * min(params.tree.arity, 128) * rows)


def run(context: Context[TrainParams]) -> Produced:
    """Store the rows, plan the trees, train their units on the cluster, join them to the model."""
    from xpipe.stages.train_trees import planning, work
    from xpipe.stages.train_trees.messages import LabelChunk, Planning, Training

    params = context.params.tree
    assert params is not None  # or the stage is off
    dataset = dataset_folder(context.inputs["datasets"].folder, "tree")
    training = Training(dataset, params, context.seed, is_weighted(dataset, params))
    shared, labels, embedded = _store(context, training)
    chunks = [] if embedded else [
        LabelChunk(f"labels-{index:05d}", rows, index, first, last)
        for index, (first, last, rows) in enumerate(labels.chunks)
    ]  # fmt: skip
    context.map("vectors", work.sum_labels, chunks, shared, one_unit_per_task=True, doing="adding up rows of labels")
    options = shared.options()
    starts = (*(first for first, _, _ in labels.chunks), labels.labels)
    cuts = planning.cuts_of(labels.labels, options)
    planned = Planning(shared, embedded, starts, cuts)
    for wave in range(len(cuts) - 1):
        nodes = planning.nodes_to_split(cuts, wave, labels.labels, options)
        context.map(f"split-{wave}", planning.split_node, nodes, planned, doing="planning the trees")
    (plan,) = context.map("plan", planning.plan_forest, [Unit("trees", 0)], planned, doing="planning the trees")
    units, of_parts = _units_to_train(plan.result)
    counts = Counts(plan.result.labels * plan.result.trees, "labels")
    made = context.map(
        "units", work.train_units, units, shared, one_unit_per_task=True, doing="training", counts=counts
    )
    joined = context.map(
        "parts", work.join_parts, of_parts, shared, one_unit_per_task=True, doing="joining parts of nodes"
    )
    learnt = {unit.name: done.result for unit, done in zip([*units, *of_parts], [*made, *joined], strict=True)}
    trained, model = join(context, shared, plan.result, learnt)
    assert shared.rows is not None
    summary = {
        "rows": shared.rows.starts[-1],
        "trees": plan.result.trees,
        "levels": plan.result.levels,
        "labels": plan.result.labels,
        "label_vectors": "embedding" if embedded else "rows",
        "held_out": plan.result.held_out,
        "weights": trained.learnt.weights,
        "bytes": model.result.bytes,
    }
    return Produced({MODEL: (model.files, {})}, summary)


def join(
    context: Context[TrainParams], shared: Training, plan: ForestPlan, learnt: dict[str, Learnt]
) -> tuple[Trained, Finished[ModelFacts]]:
    """Score the rows that calibrate the model, and write its weights, both by chunks of units; then finish the model.

    learnt: what each unit of work has learnt, by its name.
    """
    from xpipe.stages.train_trees import held_out, placing
    from xpipe.stages.train_trees.messages import Chunk, Placing, ToJoin, Trained

    chunks = tuple(Chunk(f"units-{number:05d}", first, last) for number, (first, last, *_) in enumerate(plan.chunks))
    own = [learnt[chunk.name] for chunk in chunks]
    trained = Trained(shared, chunks, placing.add_up(own)[-1])
    for level in range(plan.levels if plan.folds else 0):
        to_score = held_out.chunks_to_score(plan, chunks, plan.folds, level)
        context.map(f"held-out-{level}", held_out.score_chunk, to_score, trained, doing="scoring held-out rows")
    placed = None
    if placing.takes_pieces(context.folder):
        doing = "writing the model"
        (room,) = context.map("room", placing.make_room, [Unit("model", 0)], trained, doing=doing)
        to_place = placing.chunks_to_place(chunks, own)
        made = context.map("weights", placing.place_chunk, to_place, Placing(room.result), doing=doing)
        placed = tuple(done.result for done in made)
    to_join = ToJoin(trained, placed)
    (model,) = context.map("model", placing.join_model, [Unit("model", 0)], to_join, doing="joining the trees")
    return trained, model


def _units_to_train(plan: ForestPlan) -> tuple[list[TreeUnits], list[UnitOfParts]]:
    """(What is trained, the longest first; the units that are trained in parts)."""
    from xpipe.stages.train_trees.messages import TreeUnits, UnitOfParts
    from xpipe.trees.row_parts import Part

    units: list[TreeUnits] = []
    of_parts: list[UnitOfParts] = []
    for number, (first, last, rows, n_parts) in enumerate(plan.chunks):
        name = f"units-{number:05d}"
        if n_parts == 1:
            units.append(TreeUnits(name, rows, first, last, Part(0, 1)))
            continue
        parts = [
            TreeUnits(f"{name}-{part}", rows // n_parts, first, last, Part(part, n_parts)) for part in range(n_parts)
        ]
        units += parts
        of_parts.append(UnitOfParts(name, rows, first, tuple(part.name for part in parts)))
    return sorted(units, key=lambda unit: -unit.size), of_parts


def is_weighted(dataset: str, params: TreeParams) -> bool:
    """Whether positives count with their scores: by default where these are posteriors."""
    from xpipe.formats.emitted import read_about

    if params.weighted == "auto":
        return bool(read_about(dataset).get("label_scores") == "posterior")
    return params.weighted


def _store(context: Context[TrainParams], shared: Training) -> tuple[Training, LabelFacts, bool]:
    """Store the rows of the dataset. Returns what all tasks share from then on, and whether it has label vectors."""
    from xpipe.formats.emitted import read_about
    from xpipe.stages.train_trees import work
    from xpipe.stages.train_trees.stored_rows import RowFacts, bundle_files

    about = read_about(shared.dataset)
    stored = context.map("rows", work.store_rows, bundle_files(shared.dataset), shared, doing="storing rows")
    starts = tuple(itertools.accumulate((made.result.rows for made in stored), initial=0))
    entries = sum(made.result.entries for made in stored)
    rows = RowFacts(starts, entries, about["n_features"], about["n_labels"])
    shared = dataclasses.replace(shared, rows=rows)
    listing = [Unit("labels", 0)]
    (labels,) = context.map("labels", work.transpose_labels, listing, shared, doing="listing rows of labels")
    embedded = shared.params.label_vectors == "embedding" and "label_embedding" in about
    return shared, labels.result, embedded


def describe(summary: dict[str, Any]) -> str:
    """What the console says about the stage."""
    shape = f"{summary['trees']} trees of {summary['levels']} levels for {summary['labels']:,} labels"
    return f"{shape}; {summary['weights']:,} weights, {format_bytes(summary['bytes'])}"


def compile_kernels() -> None:
    """Compile the kernels on a small problem, and those that read its trees again."""
    import os
    import tempfile

    import numpy as np
    import scipy.sparse as sp

    from xpipe.trees import LabelTree

    X = sp.csr_matrix(np.tile(np.eye(4, dtype=np.float32), (4, 1)))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tree.npz")
        LabelTree(n_trees=1, max_leaf=2, arity=2).fit(X, X, threads=1).save(path)
        LabelTree.load(path).predict(X, k=2, threads=1)


STAGE = Stage(
    name="train",
    section="train",
    version=9,
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
