"""Label trees at a worker: plan the trees, train some units of them, join what was trained to one model.

Knows nothing of Dask; the algorithm is `trees`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy.sparse as sp

from xpipe.formats.parquet import read_about, read_label_embedding, read_split
from xpipe.ground import files
from xpipe.stages.arrays import packed, unpacked
from xpipe.stages.read.work import entry_of
from xpipe.trees import (
    LabelTree,
    TrainingData,
    TreeOptions,
    TreePlan,
    UnitWeights,
    make_forest,
    plan_forest,
    state_data,
    train_unit,
    unit_costs,
)

CHUNKS = 64  # tasks of about equal cost; fixed, so that the number of workers changes no file
PLAN = "plan/trees.npz"
MODEL_FILE = "tree_model/models/tree.npz"


def options_of(shared: dict) -> TreeOptions:
    """Rows of tree/ have length 1 already; scaling them again costs little and takes rows of others."""
    own = {name: value for name, value in shared["params"].items() if name not in ("label_vectors", "weighted")}
    return TreeOptions(**own, seed=shared["seed"])


def training_data(shared: dict) -> TrainingData:
    return _training_data(shared["dataset"], shared["params"]["weighted"])


@lru_cache(maxsize=1)
def _training_data(dataset: str, weighted: bool | str) -> TrainingData:
    """A process keeps the rows: it trains many units of them."""
    if weighted == "auto":
        weighted = read_about(dataset).get("label_scores") == "posterior"
    X, scores = read_split(dataset, "train")
    Y = sp.csr_matrix((np.ones_like(scores.data), scores.indices, scores.indptr), scores.shape)
    return state_data(X, Y, scores if weighted else None)


def plan(folder: str, shared: dict) -> tuple[list[dict], dict]:
    """The trees, and their units in chunks: neighbours of about equal cost together."""
    data = training_data(shared)
    vectors = read_label_embedding(shared["dataset"]) if shared["params"]["label_vectors"] == "embedding" else None
    plans = plan_forest(data, vectors, options_of(shared))
    costs = np.concatenate([np.zeros(0, np.int64), *(unit_costs(data, plan) for plan in plans)])
    chunks, first, total = [], 0, 0
    for number, cost in enumerate(costs.tolist()):
        total += cost
        if total >= costs.sum() / CHUNKS or number == len(costs) - 1:
            chunks.append([first, number + 1, total])
            first, total = number + 1, 0
    arrays = {f"order-{plan.tree}": plan.order for plan in plans}
    arrays |= {f"bounds-{plan.tree}-{level}": plan.bounds[level] for plan in plans for level in range(plan.depth)}
    facts = {
        "trees": len(plans),
        "levels": plans[0].depth if plans else 0,
        "labels": len(data.labels),
        "label_vectors": "rows" if vectors is None else "embedding",
    }
    result = {"chunks": chunks, "rows": data.X.n_rows, "facts": facts}
    return [entry_of(folder, PLAN, packed(arrays))], result


def read_plans(folder: str) -> tuple[TreePlan, ...]:
    arrays = unpacked(folder, PLAN)
    n_trees = sum(name.startswith("order-") for name in arrays)
    depth = [sum(name.startswith(f"bounds-{tree}-") for name in arrays) for tree in range(n_trees)]
    return tuple(
        TreePlan(tree, arrays[f"order-{tree}"], tuple(arrays[f"bounds-{tree}-{level}"] for level in range(depth[tree])))
        for tree in range(n_trees)
    )


def train(folder: str, unit: dict, shared: dict) -> tuple[list[dict], dict]:
    """Train units first..last of all trees, counted one after the other."""
    data, options = training_data(shared), options_of(shared)
    wanted = [(plan, part) for plan in read_plans(folder) for part in plan.units()][unit["first"] : unit["last"]]
    arrays = {}
    for number, (plan, part) in enumerate(wanted):
        for name, array in train_unit(data, plan, part, options)._asdict().items():
            arrays[f"{number}-{name}"] = array
    return [entry_of(folder, f"units/{unit['unit']}.npz", packed(arrays))], {}


def join(folder: str, shared: dict) -> tuple[list[dict], dict]:
    """The model of all trained units, in one file."""
    found = []
    for path in shared["trained"]:
        arrays = unpacked(folder, path)
        for number in range(len(arrays) // len(UnitWeights._fields)):
            found.append(UnitWeights(*(arrays[f"{number}-{name}"] for name in UnitWeights._fields)))
    options = options_of(shared)
    tree = LabelTree.of(make_forest(training_data(shared), read_plans(folder), found, options), options)
    target = files.join(folder, MODEL_FILE)
    tree.save(target)
    entry = {"path": MODEL_FILE, "bytes": files.size(target), "sha256": files.sha256(target)}
    return [entry], {"weights": sum(len(unit.weights) for unit in found), "bytes": entry["bytes"]}
