"""Tries a cluster without a pipeline: starts or connects it, checks its workers, and lets them do some small work.

Holds no stage. Every piece of work computes the same sums, so workers whose bytes differ are found here.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import time
from dataclasses import dataclass

from xpipe.engine.cluster import connect
from xpipe.engine.cluster.calls import Call, ClusterParams, Outcome, Preparation
from xpipe.engine.cluster.remote import RemoteWorkers
from xpipe.engine.messages import Finished, Unit, write_entry
from xpipe.engine.progress import Says
from xpipe.errors import ResourceError
from xpipe.ground import files
from xpipe.ground.temporary_names import temporary_name

PIECES_PER_WORKER = 4
SIDE = 256  # rows and columns of the matrices that a piece multiplies


@dataclass(frozen=True)
class Piece:
    """What one piece of work gave: the digest of its sums, and the process that computed them."""

    digest: str
    host: str
    process: int


@dataclass(frozen=True)
class Trial:
    """How a trial went. workers: processes that did a piece. digests: of the sums; one if all computed the same."""

    pieces: int
    workers: int
    hosts: int
    seconds: float
    digests: tuple[str, ...]


def try_cluster(params: ClusterParams, store: str, says: Says) -> Trial:
    """Try a cluster. It is closed at the end, whatever happens.

    store: the folder that workers must see; only a new folder inside is written, and removed again. Raises
    ResourceError if too few workers can be used, or any that has joined cannot, with the reasons; ConfigError if the
    cluster cannot be there.
    """
    folder = files.join(store, temporary_name("trial"))
    done: list[Piece] = []

    def on_done(call: Call, outcome: Outcome) -> None:
        done.extend(receipt.result for receipt in outcome.receipts.values())

    with contextlib.closing(connect(params, says)) as cluster:
        if isinstance(cluster, RemoteWorkers):
            cluster.wanted = wanted_workers(params)
        cluster.prepare(Preparation("trial", compile_trial))
        units = [Unit(f"piece-{number:05d}", 1) for number in range(PIECES_PER_WORKER * cluster.workers)]
        calls = [Call(f"trial, {unit.name}", compute_piece, folder, "trial", (unit,), SIDE) for unit in units]
        try:
            files.write_bytes(files.join(folder, "begun"), b"")
            began = time.monotonic()
            cluster.run(calls, on_done)
            seconds = time.monotonic() - began
        finally:
            files.remove(folder)
        reasons = cluster.refusals() if isinstance(cluster, RemoteWorkers) else ""
    if reasons:
        fix = "correct the environment of these workers; the others of this cluster did the trial's work"
        raise ResourceError(f"cluster {params.kind} has workers that cannot be used", where=store, why=reasons, fix=fix)
    processes = {(piece.host, piece.process) for piece in done}
    digests = tuple(sorted({piece.digest for piece in done}))
    return Trial(len(done), len(processes), len({host for host, _ in processes}), seconds, digests)


def wanted_workers(params: ClusterParams) -> int:
    """How many workers must come before the trial begins: all that are started at once; of other clusters one."""
    definition = params.definition
    if definition is None or definition.address is not None:
        return 1
    return definition.adapt.minimum if definition.adapt is not None else params.workers if definition.workers else 1


def compute_piece(folder: str, unit: Unit, side: int) -> Finished[Piece]:
    """Runs at a worker: a product of matrices and some hashes, the same ones in every piece."""
    import numpy as np

    from xpipe.ground._splitmix_numba import hash_numbers

    random = np.random.default_rng(0)
    product = random.standard_normal((side, side)) @ random.standard_normal((side, side))
    hashes = np.empty(side, np.uint64)
    hash_numbers(np.arange(side, dtype=np.uint64), hashes)
    digest = hashlib.sha256(product.tobytes() + hashes.tobytes()).hexdigest()
    entry = write_entry(folder, f"{unit.name}.txt", digest.encode())
    return Finished((entry,), Piece(digest, platform.node(), os.getpid()))


def compile_trial() -> None:
    """Runs at one worker of each machine: compiles the kernel of the trial."""
    import numpy as np

    from xpipe.ground._splitmix_numba import hash_numbers

    hash_numbers(np.arange(1, dtype=np.uint64), np.empty(1, np.uint64))
