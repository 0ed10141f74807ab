"""Stage synth: writes a stand-in where the files of a dataset are missing.

Holds orchestration only: what a worker does is in `work`, the generator is `xpipe.synth`.
"""

from __future__ import annotations

from typing import Any

from xpipe.engine.context import Context
from xpipe.engine.messages import Unit
from xpipe.engine.params import canonical_params
from xpipe.engine.stage import Estimate, Produced, Stage
from xpipe.ground.quantities import format_bytes
from xpipe.stages.read.params import DataParams, has_files


def is_needed(params: DataParams) -> bool:
    """Whether the files are missing and a stand-in is asked for."""
    return params.if_missing == "synthesize" and not has_files(params)


def identity(params: DataParams, inputs: dict[str, Any], store: Any) -> dict[str, Any]:
    """The name of the stand-in and the version of its generator."""
    from xpipe.synth import SYNTH_VERSION

    reading = set(DataParams.model_fields) - {"name"}  # options of reading do not change the files
    return {**canonical_params(params, leave_out=reading), "synth_version": SYNTH_VERSION}


def estimate(params: DataParams, inputs: dict[str, Any]) -> Estimate:
    """Rows to make, and the memory of one piece."""
    from xpipe.synth import plan_pieces

    return Estimate(sum(piece.n_rows for piece in plan_pieces(str(params.name))), 512 * 2**20)


def run(context: Context[DataParams]) -> Produced:
    """Write the pieces on the cluster, then join them to files."""
    from xpipe.stages.synth import work
    from xpipe.synth import plan_pieces

    name = str(context.params.name)
    pieces = plan_pieces(name)
    shared = work.StandIn(name, context.seed)
    units = [
        work.Piece(f"{piece.split}-{piece.index:05d}", piece.n_rows, number) for number, piece in enumerate(pieces)
    ]
    context.map("pieces", work.write_rows, units, shared, doing="writing rows")
    (written,) = context.map("files", work.assemble_files, [Unit("all", 0)], shared, doing="joining files")
    summary = {
        "rows": sum(piece.n_rows for piece in pieces),
        "synthetic": True,
        "dataset": name,
        "bytes": sum(entry.bytes for entry in written.files),
    }
    return Produced({work.SOURCE: (written.files, {"dataset": name})}, summary)


def describe(summary: dict[str, Any]) -> str:
    """What the console says about the stage."""
    return f"stand-in of {summary['dataset']}, {format_bytes(summary['bytes'])}"


def compile_kernels() -> None:
    """Compile the kernels on a small stand-in."""
    from xpipe.synth import plan_pieces, rows_of

    rows_of("tiny", 0, plan_pieces("tiny")[0])


STAGE = Stage(
    name="synth",
    section="data",
    version=1,
    reads=(),
    writes=("source",),
    params=DataParams,
    run=run,
    seeded=True,
    enabled=is_needed,
    identity=identity,
    libraries=("numba", "numpy", "scipy"),
    estimate=estimate,
    compile=compile_kernels,
    kernels="synth",
    describe=describe,
)
