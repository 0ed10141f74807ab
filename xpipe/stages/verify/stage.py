"""Stage verify: which label sets of a split the trained heads, or given weights, can and cannot produce.

Orchestration only: `work` and `report` have what a worker does, the room `argmaxability` the proofs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from xpipe.argmaxability.options import MODE, NO_BIAS
from xpipe.engine.context import Context
from xpipe.engine.manifest import Artifact
from xpipe.engine.messages import Finished, Unit
from xpipe.engine.params import canonical_params
from xpipe.engine.places import input_problem
from xpipe.engine.stage import Estimate, Outlook, Produced, Stage
from xpipe.errors import ConfigError, DataError, XpipeError
from xpipe.ground import files
from xpipe.stages.emit.stage import dataset_problem
from xpipe.stages.emitted_paths import VERIFICATION_FILE, VERIFICATION_FOLDER, dataset_folder
from xpipe.stages.matrices import locate, splits_of
from xpipe.stages.read.outlook import split_problem
from xpipe.stages.verify.messages import (
    Exactness,
    Explaining,
    HeadReport,
    HeadSource,
    HeadToJoin,
    HeadToPrepare,
    LabelsAsRead,
    LabelsOfHeads,
    LabelSource,
    PreparedHead,
    Report,
    SetCounts,
    SetRange,
    SplitToVerify,
)
from xpipe.stages.verify.params import VerifyParams, weight_files

VERIFICATION = "verification"
GIVEN = "weights"  # the name of a head whose weights are given
LOOKED_AT_FIRST = 1 << 26  # most bytes of given weights that are read before the first stage: that takes a moment
SETS_PER_UNIT = 128  # at least; whole blocks of argmaxability; no byte of the output depends on it


def needs(params: VerifyParams) -> tuple[str, ...]:
    """The artifacts that this section reads."""
    if params.as_read:
        return ("labels|held_out_labels", "names?")
    return ("datasets",) if params.weights else ("head_models", "datasets")


def preflight(params: VerifyParams, outlook: Outlook) -> list[XpipeError]:
    """What is bound to fail: a missing split or dataset, weights that cannot be read or do not fit."""
    problems = split_problem(STAGE.section, params.split, outlook, grouped_train=not params.as_read)
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
    """The problem of given weights, if they are small enough to be read here."""
    from xpipe.argmaxability.layer_files import open_layer, read_layer

    given = weight_files(params)
    if sum(files.size(path) for path in given.values()) > LOOKED_AT_FIRST:
        return []
    try:
        bias = NO_BIAS if params.bias == NO_BIAS else given.get("bias")
        if params.mode_of(None) == MODE:
            W: Any = read_layer(given["weights"], params.key, bias, params.bias_key).W
        else:
            W = open_layer(given["weights"], params.key, bias, params.bias_key).rows
        if outlook.n_labels is not None:
            few_enough = (
                len(W) <= outlook.n_labels and not params.as_read
            )  # heads/ may have fewer labels than were read
            check_width(GIVEN, len(W), len(W) if few_enough else outlook.n_labels, params)
    except XpipeError as error:
        return [error]
    return []


def identity(params: VerifyParams, inputs: dict[str, Artifact], store: Any) -> dict[str, Any]:
    """Weights count by their content, never by their path."""
    own = canonical_params(params, leave_out=("weights", "bias"))
    own |= {"bias": NO_BIAS} if params.bias == NO_BIAS else {}
    if own_modes := _other_modes(params, inputs):
        own["own_modes"] = own_modes
    given = weight_files(params)
    if not given:
        return own
    from xpipe.argmaxability.layer_files import files_of_layer

    digests = store.digest_inputs(given.values())
    found = {role: digests[path] for role, path in given.items()}
    if others := [path for path in files_of_layer(given["weights"], params.key) if path not in given.values()]:
        of_others = store.digest_inputs(others)  # of a model in several files, whose index says little of its numbers
        found["files"] = [of_others[path] for path in others]
    return {**own, "digests": found}


def _other_modes(params: VerifyParams, inputs: dict[str, Artifact]) -> dict[str, str]:
    """The modes of heads that are not verified by signs, where the pipeline chooses none: they change results."""
    if params.mode is not None or "head_models" not in inputs:
        return {}
    heads = inputs["head_models"].about.get("heads", [])
    return {head["name"]: mode for head in heads if (mode := params.mode_of(head["layer"])) != MODE}


def uses_backend(params: VerifyParams) -> bool:
    """Only bounds start from points of the GPU; exact radii never do."""
    return params.radius != "exact"


def estimate(params: VerifyParams, inputs: dict[str, Artifact]) -> Estimate:
    """Memory for one head in float64, twice, and for verdicts with one point per label set."""
    if "head_models" not in inputs:
        size = sum(files.size(path) for path in weight_files(params).values())
        if params.mode_of(None) != MODE:  # rows are mapped, not copied: blocks of them are what counts
            return Estimate(None, 300 * 2**20 + min(5 * size, 2**30))
        return Estimate(None, 300 * 2**20 + 5 * size)
    size = max((entry.bytes for entry in inputs["head_models"].files), default=0)
    return Estimate(None, 300 * 2**20 + 5 * size)


def run(context: Context[VerifyParams]) -> Produced:
    """Verify the label sets of a split with every head, and write a report."""
    sources = find_heads(context.params, context.inputs)
    labels = find_labels(context.params, context.inputs)
    counts, heads = prepare(context, sources, labels)
    check_prepared(counts, heads, context.params)
    parts = verify_sets(context, heads, counts)
    joined = join_verdicts(context, heads, parts, labels)
    report = Report(context.params, counts, tuple(made.result for made in joined))
    written = write_report(context, report)
    entries = [*(entry for made in joined for entry in made.files), *written.files]
    return Produced({VERIFICATION: (entries, {})}, report.summary())


def find_heads(params: VerifyParams, inputs: dict[str, Artifact]) -> list[HeadSource]:
    """Where the weights of every head are, as paths that workers can read."""
    if params.weights is not None:
        given = {role: os.path.abspath(p) if files.is_local(p) else p for role, p in weight_files(params).items()}
        bias = NO_BIAS if params.bias == NO_BIAS else given.get("bias")
        mode = params.mode_of(None)
        return [HeadSource(GIVEN, None, given["weights"], params.key, bias, params.bias_key, mode)]
    artifact = inputs["head_models"]
    found = []
    for head in artifact.about["heads"]:
        path = files.join(artifact.folder, head["folder"], "weights.safetensors")
        # stage train_heads names the arrays so; a bias is used if the file has one
        mode = params.mode_of(head["layer"])
        found.append(HeadSource(head["name"], head["layer"], path, key="W", bias=None, bias_key="bias", mode=mode))
    if not found:
        raise ConfigError("there is no head to verify", why="stage train made none", fix=STAGE.instead)
    return found


def find_labels(params: VerifyParams, inputs: dict[str, Artifact]) -> LabelSource:
    """Where the labels of the split are, with the numbers that the rows of the weights have."""
    if params.as_read:
        labels = inputs.get("labels") or inputs["held_out_labels"]
        check_split(params.split, splits_of(labels))
        return LabelsAsRead(locate(labels), locate(inputs["names"]) if "names" in inputs else None)
    datasets = inputs["datasets"]
    check_split(params.split, datasets.about["splits"])
    return LabelsOfHeads(dataset_folder(datasets.folder, "heads"))


def prepare(
    context: Context[VerifyParams], sources: Sequence[HeadSource], labels: LabelSource
) -> tuple[SetCounts, list[PreparedHead]]:
    """Write the distinct label sets and the checked weights where every worker finds them."""
    from xpipe.stages.verify import work

    split = SplitToVerify(context.params.split, labels, every_label=context.params.mode == "argmax")
    (sets,) = context.map("sets", work.find_sets, [Unit("sets", 0)], split, doing="finding distinct sets")
    units = [HeadToPrepare(f"head-{source.name}", 0, source) for source in sources]
    prepared = context.map("prepare", work.prepare_head, units, None, doing="checking weights")
    return sets.result, [made.result for made in prepared]


def check_prepared(counts: SetCounts, heads: Sequence[PreparedHead], params: VerifyParams) -> None:
    """Raise DataError where there are no rows to verify, or weights and label sets have different labels."""
    if not counts.rows:
        raise DataError(f"split {params.split!r} has no rows to verify", fix="choose another split: verify.split=train")
    for head in heads:
        check_width(head.name, head.n_labels, counts.n_labels, params)


def verify_sets(
    context: Context[VerifyParams], heads: Sequence[PreparedHead], counts: SetCounts
) -> dict[str, tuple[str, ...]]:
    """Verify every distinct set with every head. Returns the paths of the verdicts by the name of the head."""
    from xpipe.argmaxability.verification import sets_per_block
    from xpipe.stages.verify import work

    units = [
        SetRange(f"{head.name}-{first:09d}", min(size, counts.distinct_sets - first), head.name, first, head.mode)
        for head in heads
        for size in [max(SETS_PER_UNIT, sets_per_block(head.mode, head.n_labels * head.inputs))]
        for first in range(0, counts.distinct_sets, size)
    ]
    shared = Exactness(context.params, context.backend)
    verified = context.map("verdicts", work.verify_sets, units, shared, one_unit_per_task=True, doing="verifying")
    return {
        head.name: tuple(
            entry.path
            for unit, made in zip(units, verified, strict=True)
            if unit.head == head.name
            for entry in made.files
        )
        for head in heads
    }


def join_verdicts(
    context: Context[VerifyParams],
    heads: Sequence[PreparedHead],
    parts: dict[str, tuple[str, ...]],
    labels: LabelSource,
) -> list[Finished[HeadReport]]:
    """Write one file of verdicts per head, and count them."""
    from xpipe.stages.verify import report

    units = [HeadToJoin(head.name, 0, head, parts[head.name]) for head in heads]
    shared = Explaining(context.params.explain, labels)
    return context.map("join", report.join_verdicts, units, shared, one_unit_per_task=True, doing="explaining")


def write_report(context: Context[VerifyParams], content: Report) -> Finished[None]:
    """Write verification.json."""
    from xpipe.stages.verify import report

    (written,) = context.map("report", report.write_report, [Unit("report", 0)], content)
    return written


def check_split(split: str, have: list[str]) -> None:
    """Raise ConfigError unless the data has the split."""
    if split not in have:
        raise ConfigError(
            f"there is no split {split!r} with labels to verify",
            why="the data has " + ", ".join(have),
            fix=f"put {split}.txt beside the training file, or choose another split: verify.split={have[0]}",
        )


def check_width(head: str, n_labels: int, expected: int, params: VerifyParams) -> None:
    """Raise DataError unless the weights of a head have as many labels as the label sets."""
    if n_labels != expected:
        raise DataError(
            f"weights of {n_labels:,} labels, but label sets of {expected:,}",
            where=params.weights or head,
            why="row i of the weights must be label i"
            + (" as it was read, also where training never saw it" if params.as_read else " of heads/labels.parquet"),
            fix="check that both come from the same dataset, that the weights are not transposed, and "
            "verify.label_numbers: original or heads",
        )


def describe(summary: dict[str, Any]) -> str:
    """One line: how many label sets each head can produce."""
    named = [f"{head['name']} {head['argmaxable']:,}" for head in summary["heads"]]
    more = f" and {len(named) - 3} more heads" if len(named) > 3 else ""
    return f"{summary['split']}: argmaxable with {', '.join(named[:3])}{more}; of {summary['rows']:,} label sets"


def compile_kernels() -> None:
    """Compile the kernels of all searches."""
    import numpy as np
    import scipy.sparse as sp

    from xpipe.argmaxability import verify

    W = np.random.default_rng(0).standard_normal((12, 3))
    Y = sp.csr_matrix((W @ W[:4].T > 0).T.astype(np.float32))
    for bias in (None, W[:, 0]):
        verify(W, Y, bias, radius="exact", threads=1)
        verify(W, Y, bias, mode="topk", radius="exact", threads=1)


STAGE = Stage(
    name="verify",
    section="verify",
    version=3,
    reads=("head_models?", "datasets?", "labels|held_out_labels?", "names?"),
    writes=(VERIFICATION,),
    params=VerifyParams,
    run=run,
    exports=(VERIFICATION,),
    outputs=(VERIFICATION_FOLDER, VERIFICATION_FILE),
    needs=needs,
    preflight=preflight,
    identity=identity,
    uses_backend=uses_backend,
    libraries=("numba", "numpy", "pyarrow", "scipy"),
    estimate=estimate,
    compile=compile_kernels,
    kernels="argmaxability",
    describe=describe,
    counts="label sets",
    instead="train heads (section `train`), or give weights from anywhere: verify: {weights: W.npy}",
)
