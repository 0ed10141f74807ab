"""What a worker is asked, and which workers fit: those that have the same xpipe, see the store and write our bytes.

Asks nobody: `doorkeeper` does. What runs at a worker stands here, under names that all versions know.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xpipe.engine.cluster.facts import WorkerFacts, versions_here
from xpipe.ground import files, machine
from xpipe.ground.library_threads import while_executing
from xpipe.ground.release import PACKAGE, __version__

UNSEEN = "does not see"


@dataclass(frozen=True)
class Probe:
    """A small file in the folder that calls write to. A worker that reads its text sees the same folder."""

    path: str
    text: str


def describe_worker(path: str, text: str) -> dict[str, Any]:
    """Runs at a worker: its version, the digest of its code, and whether it reads `text` in the file `path`.

    Workers with other versions of xpipe are asked too, so this name, the arguments and the keys must stay. Other
    versions may answer without the keys after the first three.
    """
    clock = time.time()  # the question took about as long to come as the answer takes to go, if this comes first
    try:
        sees = files.read_bytes(path) == text.encode()
    except Exception:  # whatever prevents it from reading the file prevents it from working
        sees = False
    return {
        "version": __version__,
        "code": code_digest(),
        "sees_folder": sees,
        "versions": versions_here(),
        "host": platform.node(),
        "cores": machine.usable_cores(),
        "clock": clock,
        "seconds": time.time() - clock,
    }


@functools.cache
def code_digest() -> str:
    """SHA-256 over all source files of xpipe: two copies with the same version number may still differ."""
    folder = PACKAGE
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


async def admit(pass_name: str, dask_worker: Any) -> None:
    """Runs at a worker that fits: gives it the pass, once for each of its threads."""
    from distributed.core import Status

    await dask_worker.set_resources(**{pass_name: dask_worker.state.nthreads})
    if dask_worker.status == Status.running:  # when a worker resumes, the scheduler offers it the waiting calls
        dask_worker.status = Status.paused
        dask_worker.status = Status.running


async def compile_kernels(compile_them: Callable[[], None]) -> float:
    """Runs at one worker of each machine: compiles kernels, in a thread that lets the worker answer. The seconds."""

    def compile_here() -> None:
        with while_executing():
            compile_them()

    began = time.monotonic()
    await asyncio.to_thread(compile_here)
    return time.monotonic() - began


def misfit(answer: Any, folder: str, releases: Mapping[str, str] | None = None) -> str:
    """Why a worker with this answer must not be given calls; "" if it can be.

    releases: of libraries, those that the content key of the stage names.
    """
    if not isinstance(answer, dict):
        return f"cannot run this xpipe ({type(answer).__name__}: {str(answer)[:300]}); install {__version__} there"
    if answer.get("version") != __version__:
        return f"has xpipe {answer.get('version')}, this is {__version__}; install one version everywhere"
    if answer.get("code") != code_digest():
        return f"has other code than this, though both call themselves xpipe {__version__}; install one everywhere"
    if not answer.get("sees_folder"):
        return f"{UNSEEN} {folder}; put `store` on a file system all share, or use a URL such as s3://bucket/store"
    found = answer.get("versions", {})
    other = [name for name, release in (releases or {}).items() if found.get(name) != release]
    if other:
        has = ", ".join(f"{name} {found[name]}" if name in found else f"no {name}" for name in other)
        here = ", ".join(f"{name} {(releases or {})[name]}" for name in other)
        return f"has {has}, this is {here}; other releases may write other bytes: install the same everywhere"
    return ""


def to_facts(answer: Any, address: str, known: Mapping[str, Any], sent: float, reason: str) -> WorkerFacts:
    """What is known of a worker from its answer, and from the scheduler (`known`). sent: when it was asked."""
    told = answer if isinstance(answer, dict) else {}
    versions = {"xpipe": str(told["version"])} if "version" in told else {}
    doubt = max(0.0, (time.time() - sent - told.get("seconds", 0.0)) / 2)
    return WorkerFacts(
        address=address,
        host=str(told.get("host", known.get("host", "?"))),
        versions=told.get("versions", versions),
        memory=int(known.get("memory_limit") or 0),
        cores=int(told.get("cores", 0)),
        sees_store=bool(told.get("sees_folder")),
        clock=told["clock"] - sent - doubt if "clock" in told else 0.0,
        doubt=doubt,
        reason=reason,
    )
