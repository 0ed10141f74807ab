"""Stage assign: labels of groups become labels of samples, one chunk of labels per task.

Holds no algorithm. It carries out `eagle.plan` on the cluster: one task makes the choices of `discriminative` and
`auto`, then every chunk of labels is assigned, then one task joins the chunks. Last, owners/ is written part by part.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from xpipe.eagle.options import CHOOSING, MOST_FEATURES, RANK_ALIKE
from xpipe.engine.context import Context, Counts
from xpipe.engine.manifest import Artifact
from xpipe.engine.messages import FileEntry, Finished, Unit
from xpipe.engine.params import canonical_params
from xpipe.engine.stage import Estimate, Produced, Stage
from xpipe.stages.assign.params import ASSIGNED, CANDIDATES, AssignParams
from xpipe.stages.embed.params import EmbedParams, embedding_identity
from xpipe.stages.emitted_paths import OWNERS_FOLDER
from xpipe.stages.matrices import MatrixRef, entries_of, locate, matrix_about, part_rows, rows_of

if TYPE_CHECKING:
    from xpipe.ground.calibration_map import CalibrationMap
    from xpipe.stages.assign.messages import (
        Assignment,
        ChunkResult,
        GatherResult,
        GroupsPart,
        OwnerFiles,
        RowsPart,
        Settled,
    )

MATRICES = (ASSIGNED, CANDIDATES)
SCORES = {"baseline": "none", "discriminative": "posterior"}  # what scores are without chances; of others: similarity


def identity(params: AssignParams, inputs: dict[str, Artifact], store: Any) -> dict[str, Any]:
    """The parameters that the method uses: a centred assignment does not depend on the steps of eagle."""
    own = {
        "eagle": {"steps", "step_size"},
        "discriminative": {"owners", "ridge", "threshold", "rounds"},
    }
    others = [options for method, options in own.items() if params.method not in (method, "auto")]
    return canonical_params(params, leave_out=set().union(*others))


def uses_backend(params: AssignParams) -> bool:
    """Whether CPU and GPU give other bytes: all methods but one have sums."""
    return params.method != "baseline"


def estimate(params: AssignParams, inputs: dict[str, Artifact]) -> Estimate:
    """The most memory that one label can need: all rows, gathered and renumbered, or with their coordinates."""
    features = inputs["features"]
    n_rows, entries, n_features = rows_of(features, "train"), entries_of(features, "train"), features.about["n_columns"]
    needed = {"baseline": 4 * entries}.get(params.method, 24 * entries)
    # every method has a trial, which tells how far to trust it
    leading = min(n_features, MOST_FEATURES)
    needed = max(needed, 16 * entries + 4 * RANK_ALIKE * (n_rows + 4 * leading) + 4 * leading**2)
    return Estimate(n_rows, 250 * 2**20 + needed)


def usable_embedding(params: AssignParams, inputs: dict[str, Artifact]) -> MatrixRef | None:
    """The stored label vectors, where they are what this method would compute."""
    if "label_embedding" not in inputs or params.method not in ("eagle0", "eagle"):
        return None
    made = embedding_identity(EmbedParams(method=params.method, steps=params.steps, step_size=params.step_size))
    artifact = inputs["label_embedding"]
    return locate(artifact) if artifact.about["made"] == made else None


def run(context: Context[AssignParams]) -> Produced:
    """Cut the labels into chunks, make the choices, assign each chunk, join the chunks."""
    from xpipe.stages.assign import work
    from xpipe.stages.label_chunks import plan_labels

    assignment = _assignment(context)
    (planned,) = context.map("plan", plan_labels, [Unit("labels", 0)], assignment, doing="planning")
    settled = _settle(context, assignment)
    if settled.method == "discriminative" and len(planned.result.chunks) > 1:  # most samples are in several chunks
        settled = _store_shared(context, settled)
    units = planned.result.units()
    chunks = context.map("labels", work.assign_chunk, units, settled, one_unit_per_task=True, doing="finding owners")
    found = _owner_files(context, chunks, settled)
    (gathered,) = context.map("rows", work.gather_rows, [Unit("train", 0)], found, doing="joining")
    features = context.inputs["features"]
    about = matrix_about(assignment.n_labels, features.about["part_rows"], {"train": rows_of(features, "train")})
    summary = _summary(settled, [made.result for made in chunks], gathered.result)
    shifts = tuple(made.result.shifts for made in chunks if made.result.shifts is not None)
    owners = _write_owners(context, assignment, shifts, with_chances=to_chances(settled) is not None)
    scores = "chance" if to_chances(settled) else SCORES.get(settled.method, "similarity")
    made = {name: [entry for entry in gathered.files if entry.path.startswith(f"{name}/")] for name in MATRICES}
    artifacts = {
        ASSIGNED: (made[ASSIGNED], {**about, "scores": scores}),
        CANDIDATES: (made[CANDIDATES], about),
        OWNERS_FOLDER: (owners, {}),
    }
    return Produced({name: artifacts[name] for name in provides(context.params)}, summary)


def provides(params: AssignParams) -> tuple[str, ...]:
    """Candidates come from methods that give every pair a chance."""
    has_candidates = params.method in CHOOSING and params.owners == "posterior"
    return (ASSIGNED, CANDIDATES, OWNERS_FOLDER) if has_candidates else (ASSIGNED, OWNERS_FOLDER)


def _assignment(context: Context[AssignParams]) -> Assignment:
    """What all tasks share."""
    from xpipe.eagle.plan import needs_mean
    from xpipe.stages.assign.messages import Assignment
    from xpipe.stages.label_chunks import CHUNK_ENTRIES

    inputs, options = context.inputs, context.params.options(context.seed)
    return Assignment(
        features=locate(inputs["features"]),
        membership=locate(inputs["membership"]),
        group_labels=locate(inputs["group_labels"]),
        n_labels=inputs["group_labels"].about["n_columns"],
        with_mean=needs_mean(options),
        chunk_entries=CHUNK_ENTRIES,
        options=options,
        embedding=usable_embedding(context.params, inputs),
        backend=context.backend,
    )


def _settle(context: Context[AssignParams], assignment: Assignment) -> Settled:
    """The method that is used; `discriminative` and `auto` make their choices in one task."""
    from xpipe.stages.assign import work
    from xpipe.stages.assign.messages import Settled

    if not assignment.options.chooses:
        (judged,) = context.map("trust", work.judge_method, [Unit("trust", 0)], assignment, doing="judging the method")
        return Settled(assignment, assignment.options.method, judged=judged.result)
    (chosen,) = context.map("choice", work.choose_method, [Unit("choice", 0)], assignment, doing="choosing the method")
    arrays = tuple(entry.path for entry in chosen.files)
    return Settled(assignment, chosen.result.method, chosen.result, arrays)


def _store_shared(context: Context[AssignParams], settled: Settled) -> Settled:
    """Compute once what all chunks of labels need of samples and of groups."""
    from xpipe.stages.assign.stored_rows import write_coordinates, write_kinship

    samples = _parts_of_rows(context, "coordinates")
    rows = Counts(rows_of(context.inputs["features"], "train"), "rows")
    written = context.map("coordinates", write_coordinates, samples, settled, doing="whitening rows", counts=rows)
    settled = dataclasses.replace(settled, coordinates=tuple(made.files[0].path for made in written))
    groups = _parts_of_groups(context.inputs["membership"].about["n_columns"], len(samples))
    counted = Counts(sum(unit.size for unit in groups), "groups")
    written = context.map("kinship", write_kinship, groups, settled, doing="leaving groups out", counts=counted)
    files = tuple((made.files[0].path, unit.first, unit.last) for made, unit in zip(written, groups, strict=True))
    return dataclasses.replace(settled, kinship=files)


def _parts_of_groups(n_groups: int, n_parts: int) -> list[GroupsPart]:
    """About as many parts of consecutive groups as there are parts of samples; they never depend on the workers."""
    from xpipe.stages.assign.messages import GroupsPart

    size = max(1, -(-n_groups // n_parts))
    return [
        GroupsPart(f"groups-{index:05d}", min(size, n_groups - first), first, min(first + size, n_groups))
        for index, first in enumerate(range(0, n_groups, size))
    ]


def to_chances(settled: Settled) -> CalibrationMap | None:
    """What turns scores into chances: posteriors are chances already, other scores need the map of the trial."""
    return None if settled.method == "discriminative" or settled.trust is None else settled.trust.to_chances


def _owner_files(context: Context[AssignParams], chunks: list[Finished[ChunkResult]], settled: Settled) -> OwnerFiles:
    """What is needed to join the chunks."""
    from xpipe.stages.assign.messages import OwnerFiles

    inputs = context.inputs
    candidates = tuple(made.result.candidates for made in chunks if made.result.candidates is not None)
    return OwnerFiles(
        paths=tuple(made.files[0].path for made in chunks),
        candidates=candidates if CANDIDATES in provides(context.params) else None,
        features=locate(inputs["features"]),
        truth=locate(inputs["labels"]) if "labels" in inputs else None,
        cuts=tuple(part_rows(inputs["features"], "train")),
        to_chances=to_chances(settled),
    )


def _write_owners(
    context: Context[AssignParams], assignment: Assignment, shifts: tuple[str, ...], *, with_chances: bool
) -> list[FileEntry]:
    """Write owners/ from the assigned labels, one unit per part of the samples."""
    from xpipe.stages.assign.owner_tables import OwnerFacts, write_owners_part

    names, ids = context.inputs.get("names"), context.inputs.get("ids")
    facts = OwnerFacts(
        membership=assignment.membership,
        group_labels=assignment.group_labels,
        names=None if names is None else locate(names),
        ids=None if ids is None else locate(ids),
        shifts=shifts,
        with_chances=with_chances,
        n_labels=assignment.n_labels,
    )
    units = _parts_of_rows(context, "owners")
    rows = Counts(sum(unit.size for unit in units), "rows")
    written = context.map("owners", write_owners_part, units, facts, doing="writing owners", counts=rows)
    return [entry for made in written for entry in made.files]


def _parts_of_rows(context: Context[AssignParams], name: str) -> list[RowsPart]:
    """One unit per part of the training rows."""
    from xpipe.stages.assign.messages import RowsPart

    cuts = part_rows(context.inputs["features"], "train")
    return [RowsPart(f"{name}-{index:05d}", rows, index, sum(cuts[:index])) for index, rows in enumerate(cuts)]


def _summary(settled: Settled, chunks: list[ChunkResult], gathered: GatherResult) -> dict[str, Any]:
    """What results.json tells about the stage."""
    traces = [chunk.objective for chunk in chunks if chunk.objective is not None]
    found: dict[str, Any] = {
        "rows": settled.assignment.n_labels,
        "method": settled.method,
        "allowed": sum(chunk.allowed for chunk in chunks),
        "assigned": gathered.assigned,
    }
    if settled.method in CHOOSING:
        found["candidates"] = gathered.candidates
    if gathered.quality is not None:
        found |= dataclasses.asdict(gathered.quality)
    found["trust"] = trust_of(settled, chunks, gathered)
    if traces:
        found["objective"] = [sum(values) for values in zip(*traces, strict=True)]
    if settled.choice is not None:
        found["choice"] = dataclasses.asdict(settled.choice)
    return found


def trust_of(settled: Settled, chunks: list[ChunkResult], gathered: GatherResult) -> dict[str, Any]:
    """How far to trust the assigned labels: expected figures, and true ones where the truth is known."""
    from xpipe.eagle.trust import expectation

    owned = [chunk.owned for chunk in chunks if chunk.owned is not None]
    total = [chunk.expected for chunk in chunks if chunk.expected is not None]
    sums = (math.fsum(owned), math.fsum(total)) if len(total) == len(chunks) else (None, None)
    expected, why = expectation(settled.trust, gathered.assigned, *sums)
    return {
        "expected": None if expected is None else dataclasses.asdict(expected),
        "true": None if gathered.quality is None else dataclasses.asdict(gathered.quality),
        "why": why,
    }


def describe(summary: dict[str, Any]) -> str:
    """One line about what was made."""
    found = f"{summary['method']}: {summary['assigned']:,} of {summary['allowed']:,} labels that groups allow"
    if "f1" in summary:
        quality = f"precision {summary['precision']}, recall {summary['recall']}, F1 {summary['f1']}"
        found += f"; against the true ones: {quality}"
    expected = summary["trust"]["expected"]
    if expected is not None:
        found += f"; expected: {', '.join(_spoken(name, expected[name]) for name in ('precision', 'f1'))}"
    return found + (f"; chosen because {summary['choice']['why']}" if "choice" in summary else "")


def _spoken(name: str, figure: dict[str, float]) -> str:
    """An expected figure for people."""
    return f"{'F1' if name == 'f1' else name} {figure['value']:.2f} ({figure['low']:.2f} to {figure['high']:.2f})"


def compile_kernels() -> None:
    """Compile the kernels with a small problem."""
    import numpy as np
    import scipy.sparse as sp

    from xpipe.eagle import assign, embed, impute

    X = sp.csr_matrix(np.tile(np.eye(4, dtype=np.float32), (20, 1)))
    Y1 = sp.csr_matrix(np.repeat(np.eye(40, dtype=np.float32), 2, axis=0))
    Y2 = sp.csr_matrix(np.tile(np.eye(2, dtype=np.float32), (20, 1)))
    for method in ("eagle", "auto"):
        impute(X, Y1, Y2, method, threads=1)
    assign(X, Y1, Y2, embed(X, Y1, Y2), threads=1)  # where stage embed came before


STAGE = Stage(
    name="assign",
    section="assign",
    version=16,
    reads=("features", "membership", "group_labels", "label_embedding?", "labels?", "names?", "ids?"),
    writes=(ASSIGNED, CANDIDATES, OWNERS_FOLDER),
    provides=provides,
    params=AssignParams,
    run=run,
    seeded=True,
    exports=(OWNERS_FOLDER,),
    outputs=(OWNERS_FOLDER,),
    identity=identity,
    uses_backend=uses_backend,
    libraries=("numba", "numpy", "pyarrow", "scipy"),
    estimate=estimate,
    compile=compile_kernels,
    kernels="eagle",
    counts="labels",
    describe=describe,
)
