"""Stage verify: which label sets of a split the trained heads, or weights from anywhere, can and cannot produce.

Orchestration only: what a worker does with some label sets is in `verify_sets`, the verdicts are `argmaxability`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from xpipe.engine.places import input_problem
from xpipe.engine.stage import Estimate, Outlook, Params, Produced, Stage, canonical_params
from xpipe.errors import ConfigError, XpipeError
from xpipe.ground import files
from xpipe.stages.emit.stage import dataset_problem
from xpipe.stages.matrices import locate, splits_of
from xpipe.stages.read.outlook import split_problem

VERIFICATION = "verification"
GIVEN = "weights"  # the name of a head whose weights are given
LOOKED_AT_FIRST = 1 << 26  # bytes of given weights that are read before the first stage: a moment
NO_BIAS = "none"  # as a bias: leave out the one that lies beside the weights
SETS_A_UNIT = 128  # whole units of argmaxability; no byte of the output depends on it


class VerifyParams(Params):
    """Section `verify`: which label sets, how exactly, and of which weights where the pipeline trains no heads."""

    split: Literal["train", "test", "dev"] = "test"
    radius: Literal["bounds", "exact"] = "bounds"
    eps: float = Field(default=1e-8, gt=0, le=1)
    box: float = Field(default=1e4, gt=0)
    explain: int = Field(default=5, ge=0)  # unargmaxable sets of each head whose conflict is told
    weights: str | None = None  # .npy, .npz or .safetensors, a row a label; instead of trained heads
    label_numbers: Literal["original", "heads"] = "original"  # of its rows: as read, or as in heads/labels.parquet
    key: str | None = None  # the array's name in that file
    bias: str | None = None  # a file of its own, the same one with `bias_key`, or `none`; default: what lies beside W
    bias_key: str | None = None

    @model_validator(mode="after")
    def _weights_first(self) -> Self:
        beside = ("label_numbers", "key", "bias", "bias_key")
        given = [f"`{name}`" for name in beside if getattr(self, name) not in (None, "original")]
        if self.weights is None and given:
            raise ValueError(f"{' and '.join(given)} must go with `weights`, which is not given")
        return self

    @property
    def as_read(self) -> bool:
        """Whether the label sets have the numbers they were read with, not those of heads/."""
        return self.weights is not None and self.label_numbers == "original"


def needs(params: VerifyParams) -> tuple[str, ...]:
    if params.as_read:
        return ("labels|held_out_labels", "names?")
    return ("datasets",) if params.weights else ("head_models", "datasets")


def preflight(params: VerifyParams, outlook: Outlook) -> list[XpipeError]:
    problems = split_problem(VERIFY.section, params.split, outlook, grouped_train=not params.as_read)
    if params.weights is None:
        return problems
    if not params.as_read:
        problems += dataset_problem("heads", "verify.label_numbers: heads are those of", outlook)
    unreadable = [
        problem
        for role, path in weight_files(params).items()
        if (problem := input_problem(f"verify.{role}", path, ConfigError)) is not None
    ]
    return problems + (unreadable or _wrong_weights(params, outlook))


def _wrong_weights(params: VerifyParams, outlook: Outlook) -> list[XpipeError]:
    """What is wrong with given weights, where looking at them takes no time."""
    from xpipe.argmaxability.layer import read_layer

    given = weight_files(params)
    if sum(files.size(path) for path in given.values()) > LOOKED_AT_FIRST:
        return []
    try:
        bias = NO_BIAS if params.bias == NO_BIAS else given.get("bias")
        W = read_layer(given["weights"], params.key, bias, params.bias_key).W
        if outlook.n_labels is not None:
            few_enough = len(W) <= outlook.n_labels and not params.as_read  # heads/ may have fewer than were read
            facts = {"n_labels": len(W) if few_enough else outlook.n_labels}
            check_width({"n_labels": len(W), "name": GIVEN}, facts, params)
    except XpipeError as error:
        return [error]
    return []


def weight_files(params: VerifyParams) -> dict[str, str]:
    """Paths of the given weights and bias."""
    given = {"weights": params.weights, "bias": None if params.bias == NO_BIAS else params.bias}
    return {role: files.local(path) for role, path in given.items() if path is not None}


def identity(params: VerifyParams, inputs: dict, store: Any) -> dict:
    """Weights count by their content, never by their path."""
    own = canonical_params(params, leave_out=("weights", "bias"))
    own |= {"bias": NO_BIAS} if params.bias == NO_BIAS else {}
    given = weight_files(params)
    digests = store.digest_inputs(given.values())
    return {**own, "digests": {role: digests[path] for role, path in given.items()}} if given else own


def uses_backend(params: VerifyParams) -> bool:
    """Points that a GPU finds first are never those of exact radii."""
    return params.radius != "exact"


def estimate(params: VerifyParams, inputs: dict) -> Estimate:
    """A worker holds one head in float64, twice, and verdicts with a point a label set."""
    if "head_models" not in inputs:
        size = sum(files.size(path) for path in weight_files(params).values())
        return Estimate(None, 300 * 2**20 + 5 * size)
    size = max((entry["bytes"] for entry in inputs["head_models"].files), default=0)
    return Estimate(None, 300 * 2**20 + 5 * size)


def run(context: Any) -> Produced:
    from xpipe.errors import DataError

    params, inputs = context.params, context.inputs
    heads = heads_of(params, inputs)
    shared = {
        "heads": heads,
        "dataset": f"{inputs['datasets'].folder}/datasets/heads" if "datasets" in inputs else None,
        "labels": None,
        "names": locate(inputs["names"]) if "names" in inputs else None,
        "params": params.model_dump(mode="json"),
        "backend": context.backend,
    }
    if params.as_read:
        labels = inputs.get("labels") or inputs["held_out_labels"]
        check_split(params.split, splits_of(labels))
        shared["labels"] = locate(labels)
    else:
        check_split(params.split, inputs["datasets"].about["splits"])
    units: list[dict] = [{"unit": f"head-{head['name']}", "head": index} for index, head in enumerate(heads)]
    units = [{**unit, "rows": 0} for unit in [{"unit": "sets", "head": None}, *units]]
    sets, *stated = context.map("prepare", prepare_parts, units, shared)
    shared["facts"] = facts = sets["result"]
    if not facts["rows"]:
        raise DataError(f"split {params.split!r} has no rows to verify", fix="choose another split: verify.split=train")
    for head, receipt in zip(heads, stated, strict=True):
        head.update(receipt["result"])
        check_width(head, facts, params)
    units = [
        {"unit": f"{head['name']}-{first:09d}", "head": index, "first": first, "rows": min(SETS_A_UNIT, last - first)}
        for index, head in enumerate(heads)
        for first, last in ((start, facts["distinct_sets"]) for start in range(0, facts["distinct_sets"], SETS_A_UNIT))
    ]
    verified = context.map("verdicts", verify_parts, units, shared, apart=True)
    joins = [{"unit": head["name"], "head": index, "rows": 0, "parts": []} for index, head in enumerate(heads)]
    for unit, receipt in zip(units, verified, strict=True):
        joins[unit["head"]]["parts"] += [entry["path"] for entry in receipt["files"]]
    joined = context.map("join", join_verdicts, joins, shared, apart=True)
    shared["joined"] = [receipt["result"] for receipt in joined]
    (report,) = context.map("report", write_report, [{"unit": "report", "rows": 0}], shared)
    entries = [entry for receipt in [*joined, report] for entry in receipt["files"]]
    return Produced({VERIFICATION: (entries, {})}, report["result"], scratch=("sets", "heads", "parts"))


def heads_of(params: VerifyParams, inputs: dict) -> list[dict]:
    """{name, layer, path, key, bias, bias_key} of every head; paths where workers find them."""
    if params.weights is not None:
        given = {role: os.path.abspath(p) if files.is_local(p) else p for role, p in weight_files(params).items()}
        bias = NO_BIAS if params.bias == NO_BIAS else given.get("bias")
        names = {"key": params.key, "bias": bias, "bias_key": params.bias_key}
        return [{"name": GIVEN, "layer": None, "path": given["weights"], **names}]
    artifact = inputs["head_models"]
    found = []
    for head in artifact.about["heads"]:
        path = files.join(artifact.folder, head["folder"], "weights.safetensors")
        own = {"path": path, "key": "W", "bias": None, "bias_key": "bias"}  # a bias is used where the file has one
        found.append({"name": head["name"], "layer": head["layer"], **own})
    if not found:
        raise ConfigError("there is no head to verify", why="stage train made none", fix=VERIFY.instead)
    return found


def check_split(split: str, have: list[str]) -> None:
    if split not in have:
        raise ConfigError(
            f"there is no split {split!r} with labels to verify",
            why="the data has " + ", ".join(have),
            fix=f"put {split}.txt beside the training file, or choose another split: verify.split={have[0]}",
        )


def check_width(head: dict, facts: dict, params: VerifyParams) -> None:
    from xpipe.errors import DataError

    if head["n_labels"] != facts["n_labels"]:
        raise DataError(
            f"weights of {head['n_labels']:,} labels, but label sets of {facts['n_labels']:,}",
            where=params.weights or head["name"],
            why="row i of the weights must be label i"
            + (" as it was read, also where training never saw it" if params.as_read else " of heads/labels.parquet"),
            fix="check that both come from the same dataset, that the weights are not transposed, and "
            "verify.label_numbers: original or heads",
        )


def prepare_parts(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages.verify import work as verify_sets

    for unit in units:
        found = (
            verify_sets.find_sets(folder, shared) if unit["head"] is None else verify_sets.state(folder, unit, shared)
        )
        yield unit["unit"], *found


def verify_parts(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages.verify import work as verify_sets

    for unit in units:
        yield unit["unit"], *verify_sets.verify(folder, unit, shared)


def join_verdicts(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages.verify import report as verify_report

    for unit in units:
        yield unit["unit"], *verify_report.join(folder, unit, shared)


def write_report(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.stages.verify import report as verify_report

    yield units[0]["unit"], *verify_report.report(folder, shared)


def compile_kernels() -> None:
    import numpy as np
    import scipy.sparse as sp

    from xpipe.argmaxability import verify

    W = np.random.default_rng(0).standard_normal((12, 3))
    Y = sp.csr_matrix((W @ W[:4].T > 0).T.astype(np.float32))
    for bias in (None, W[:, 0]):
        verify(W, Y, bias, radius="exact", threads=1)


VERIFY = Stage(
    name="verify",
    section="verify",
    version=2,
    reads=("head_models?", "datasets?", "labels|held_out_labels?", "names?"),
    writes=(VERIFICATION,),
    params=VerifyParams,
    run=run,
    exports=(VERIFICATION,),
    needs=needs,
    preflight=preflight,
    identity=identity,
    uses_backend=uses_backend,
    libraries=("numba", "numpy", "pyarrow", "scipy"),
    estimate=estimate,
    compile=compile_kernels,
    counts="label sets",
    instead="train heads (section `train`), or give weights from anywhere: verify: {weights: W.npy}",
)
