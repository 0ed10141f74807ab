"""Stage synth: writes a stand-in where a dataset's real files are missing. The generator itself is `xpipe.synth`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xpipe.engine.stage import Estimate, Produced, Stage, canonical_params
from xpipe.ground import files
from xpipe.stages.read.params import DataParams, has_files

SOURCE = "source"


def is_needed(params: DataParams) -> bool:
    return params.if_missing == "synthesize" and not has_files(params)


def identity(params: DataParams, inputs: dict, store: Any) -> dict:
    from xpipe.synth.stand_in import SYNTH_VERSION

    reading = set(DataParams.model_fields) - {"name"}  # how files are read changes nothing about what is in them
    return {**canonical_params(params, leave_out=reading), "synth_version": SYNTH_VERSION}


def estimate(params: DataParams, inputs: dict) -> Estimate:
    from xpipe.synth.stand_in import plan_pieces

    return Estimate(sum(piece.n_rows for piece in plan_pieces(str(params.name))), 512 * 2**20)


def run(context: Any) -> Produced:
    from xpipe.synth.stand_in import plan_pieces

    name = context.params.name
    pieces = plan_pieces(name)
    shared = {"name": name, "seed": context.seed}
    units = [
        {"unit": f"{piece.split}-{piece.index:05d}", "number": number, "rows": piece.n_rows}
        for number, piece in enumerate(pieces)
    ]
    rows = sum(piece.n_rows for piece in pieces)
    context.map("pieces", write_pieces, units, shared)
    (receipt,) = context.map("files", assemble_files, [{"unit": "all", "rows": 0}], shared)
    summary = {"rows": rows, "synthetic": True, "dataset": name, "bytes": sum(e["bytes"] for e in receipt["files"])}
    return Produced({SOURCE: (receipt["files"], {"dataset": name})}, summary, scratch=("pieces",))


def compile_kernels() -> None:
    from xpipe.synth.stand_in import plan_pieces, rows_of

    rows_of("tiny", 0, plan_pieces("tiny")[0])


def _piece_path(folder: str, number: int) -> str:
    return files.join(folder, "pieces", f"{number:05d}.txt")


def write_pieces(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.synth.stand_in import plan_pieces, write_piece

    pieces = plan_pieces(shared["name"])
    for unit in units:
        path = _piece_path(folder, unit["number"])
        write_piece(shared["name"], shared["seed"], pieces[unit["number"]], path)
        entry = {
            "path": files.join("pieces", files.basename(path)),
            "bytes": files.size(path),
            "sha256": files.sha256(path),
        }
        yield unit["unit"], [entry], {}


def assemble_files(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    from xpipe.synth.stand_in import assemble, plan_pieces, write_side_files

    target = files.join(folder, SOURCE)
    paths = [_piece_path(folder, number) for number in range(len(plan_pieces(shared["name"])))]
    assemble(shared["name"], shared["seed"], paths, target)
    write_side_files(shared["name"], shared["seed"], target)
    entries = []
    for name in files.listing(target):
        if name.startswith("."):
            continue
        path = files.join(target, name)
        entries.append({"path": files.join(SOURCE, name), "bytes": files.size(path), "sha256": files.sha256(path)})
    yield units[0]["unit"], entries, {}


SYNTH = Stage(
    name="synth",
    section="data",
    version=1,
    reads=(),
    writes=(SOURCE,),
    params=DataParams,
    run=run,
    seeded=True,
    enabled=is_needed,
    identity=identity,
    libraries=("numba", "numpy", "scipy"),
    estimate=estimate,
    compile=compile_kernels,
)
