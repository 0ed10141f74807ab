"""Stage train: label trees on the emitted tree/, and what section `train` holds: trees and heads.

Orchestration only: what a worker does with some units of a tree is in `train_tree`, the algorithm is `trees`; heads
are trained by a stage of their own, `train_heads`, so that one can change without the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from xpipe.engine.stage import Estimate, Outlook, Params, Produced, Stage, canonical_params
from xpipe.errors import XpipeError
from xpipe.stages.emit.stage import dataset_problem
from xpipe.stages.matrices import entries_of, rows_of
from xpipe.stages.train_heads.params import HeadParams, check_names

MODEL = "tree_model"


class TreeParams(Params):
    """`train: {tree: ...}`: a forest of label trees; `arity: 2` is Parabel's."""

    n_trees: int = Field(default=3, ge=1)
    arity: int = Field(default=64, ge=2)
    max_leaf: int = Field(default=100, ge=1)
    loss: Literal["squared_hinge", "logistic"] = "squared_hinge"
    cost: float = Field(default=0.8, gt=0)
    threshold: float = Field(default=0.1, ge=0)  # smaller weights become 0
    label_vectors: Literal["embedding", "rows"] = "embedding"  # rows: as where the pipeline embeds no labels
    weighted: Literal["auto", True, False] = "auto"  # positives count as much as their scores; auto: if posteriors


class TrainParams(Params):
    """Section `train`: which models to train; a tree where nothing else is asked for."""

    tree: TreeParams | None = None
    heads: list[HeadParams] = []

    @model_validator(mode="after")
    def _something(self) -> Self:
        check_names(self.heads)
        if self.tree is None and not self.heads:
            object.__setattr__(self, "tree", TreeParams())  # frozen for everybody else
        return self


def has_tree(params: TrainParams) -> bool:
    return params.tree is not None


def identity(params: TrainParams, inputs: dict, store: Any) -> dict:
    """A tree does not depend on the heads beside it."""
    assert params.tree is not None  # or the stage is off
    return {"tree": canonical_params(params.tree)}


def preflight(params: TrainParams, outlook: Outlook) -> list[XpipeError]:
    return dataset_problem("tree", "label trees are trained on", outlook)


def estimate(params: TrainParams, inputs: dict) -> Estimate:
    """Rows in memory, the sums of label rows, and the gathered rows of a root."""
    features = inputs.get("features")
    if features is None:
        return Estimate()
    entries = entries_of(features, "train")
    return Estimate(rows_of(features, "train"), 250 * 2**20 + 40 * entries)


def run(context: Any) -> Produced:
    params = context.params.tree
    shared = {
        "dataset": f"{context.inputs['datasets'].folder}/datasets/tree",
        "params": params.model_dump(mode="json"),
        "seed": context.seed,
    }
    (plan,) = context.map("plan", plan_trees, [{"unit": "trees", "rows": 0}], shared)
    units = [
        {"unit": f"units-{number:05d}", "first": first, "last": last, "rows": cost}
        for number, (first, last, cost) in enumerate(plan["result"]["chunks"])
    ]
    trained = context.map("units", train_units, units, shared, apart=True)
    shared["trained"] = [entry["path"] for receipt in trained for entry in receipt["files"]]
    (joined,) = context.map("model", join_trees, [{"unit": "model", "rows": 0}], shared)
    summary = {"rows": plan["result"]["rows"], **plan["result"]["facts"], **joined["result"]}
    return Produced({MODEL: (joined["files"], {})}, summary, scratch=("plan", "units"))


def plan_trees(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages.train_trees import work as train_tree

    yield units[0]["unit"], *train_tree.plan(folder, shared)


def train_units(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages.train_trees import work as train_tree

    for unit in units:
        yield unit["unit"], *train_tree.train(folder, unit, shared)


def join_trees(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages.train_trees import work as train_tree

    yield units[0]["unit"], *train_tree.join(folder, shared)


def compile_kernels() -> None:
    import numpy as np
    import scipy.sparse as sp

    from xpipe.trees import LabelTree

    X = sp.csr_matrix(np.tile(np.eye(4, dtype=np.float32), (4, 1)))
    LabelTree(n_trees=1, max_leaf=2, arity=2).fit(X, X, threads=1).predict(X, k=2, threads=1)


TRAIN = Stage(
    name="train",
    section="train",
    version=2,
    reads=("datasets", "features?"),
    writes=(MODEL,),
    params=TrainParams,
    run=run,
    seeded=True,
    exports=(MODEL,),
    enabled=has_tree,
    preflight=preflight,
    identity=identity,
    libraries=("numba", "numpy", "pyarrow", "scipy"),
    estimate=estimate,
    compile=compile_kernels,
    counts="units of work",
)
