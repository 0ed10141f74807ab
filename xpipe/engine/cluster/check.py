"""Which workers of a remote Dask cluster can be given calls: those that have the same xpipe and see the store.

Starts nothing, connects nothing, and knows no calls. Every worker is asked when it joins, whenever that is. A worker
that fits gets a pass: a Dask resource that every call of this run asks for. So no other worker is ever given a call,
not even a new process at the address of a worker that fitted.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xpipe
from xpipe import __version__
from xpipe.ground import files

SLOW_SECONDS = 60.0  # a worker that has not answered after this time is mentioned in a warning
ASK_AGAIN_SECONDS = 10.0  # a worker that did not fit is asked again: a shared folder may be slow to show new files
UNSEEN = "does not see"
NAMED = 5  # workers that one error names


@dataclass(frozen=True)
class Probe:
    """A small file in the folder that calls write to. A worker that reads its text sees the same folder."""

    path: str
    text: str


def describe_worker(path: str, text: str) -> dict[str, Any]:
    """Runs at a worker: its version, the digest of its code, and whether it reads `text` in the file `path`.

    Workers with other versions of xpipe are asked too, so this name, the arguments and the keys must stay.
    """
    try:
        sees = files.read_bytes(path) == text.encode()
    except Exception:  # whatever prevents it from reading the file prevents it from working
        sees = False
    return {"version": __version__, "code": code_digest(), "sees_folder": sees}


@functools.cache
def code_digest() -> str:
    """SHA-256 over all source files of xpipe: two copies with the same version number may still differ."""
    folder = Path(xpipe.__file__).parent
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


def misfit(answer: Any, folder: str) -> str:
    """Why a worker with this answer must not be given calls; "" if it can be."""
    if not isinstance(answer, dict):
        return f"cannot run this xpipe ({type(answer).__name__}: {str(answer)[:300]}); install {__version__} there"
    if answer.get("version") != __version__:
        return f"has xpipe {answer.get('version')}, this is {__version__}; install one version everywhere"
    if answer.get("code") != code_digest():
        return f"has other code than this, though both call themselves xpipe {__version__}; install one everywhere"
    if not answer.get("sees_folder"):
        return f"{UNSEEN} {folder}; put `store` on a file system all share, or use a URL such as s3://bucket/store"
    return ""


@dataclass
class _Asked:
    """A worker that was asked. reason: why it does not fit. said: whether the user was told."""

    answer: Future[str]
    probe: Probe
    since: float
    reason: str = ""
    said: bool = False


class Doorkeeper:
    """Asks the workers of a client, without ever waiting for one of them."""

    def __init__(self, client: Any, warn: Callable[[str], None], clock: Callable[[], float] = time.monotonic):
        """Ask nobody yet. warn: told of workers that do not fit. clock: for tests."""
        self._client, self._warn, self._clock = client, warn, clock
        self.pass_name = f"xpipe-{secrets.token_hex(8)}"
        self._asked: dict[tuple[str, str], _Asked] = {}

    def admitted(self, workers: dict[str, dict[str, Any]], probe: Probe) -> int:
        """How many of these workers have the pass. Those that were not asked yet are asked.

        workers: what the scheduler knows of each worker, by address.
        """
        present = {(address, str(facts.get("local_directory"))): facts for address, facts in workers.items()}
        for gone in self._asked.keys() - present.keys():
            self._asked.pop(gone).answer.cancel()
        count = 0
        for worker, facts in present.items():
            if self.pass_name in facts.get("resources", {}):
                self._asked.pop(worker, None)
                count += 1
            elif worker not in self._asked:
                self._asked[worker] = _Asked(self._ask(worker[0], probe), probe, self._clock())
            else:
                self._hear(worker[0], self._asked[worker], probe)
        return count

    def count_refused(self) -> int:
        """How many of the workers that have joined do not fit, as their answers show."""
        return sum(bool(asked.reason) for asked in self._asked.values())

    def leave(self) -> None:
        """Drop the questions that are not answered yet."""
        for asked in self._asked.values():
            asked.answer.cancel()

    def reasons(self) -> str:
        """Why workers that have joined have no pass."""
        texts = [
            f"worker {address} " + (asked.reason or f"has not answered for {self._clock() - asked.since:.0f} s")
            for (address, _), asked in self._asked.items()
        ]
        return "; ".join(texts[:NAMED]) + (f"; and {len(texts) - NAMED} more" if len(texts) > NAMED else "")

    def _ask(self, address: str, probe: Probe) -> Future[str]:
        """Begin to ask a worker. The answer is the reason why it does not fit, or ""."""
        return asyncio.run_coroutine_threadsafe(self._examine(address, probe), self._client.loop.asyncio_loop)

    async def _examine(self, address: str, probe: Probe) -> str:
        """Ask a worker, and give it the pass if it fits. Returns the reason why it does not, or ""."""
        answer = await self._at(address, describe_worker, probe.path, probe.text)
        reason = misfit(answer, files.parent(probe.path))
        if not reason:
            refusal = await self._at(address, admit, self.pass_name)
            reason = misfit(refusal, "") if refusal is not None else ""
        return reason

    async def _at(self, address: str, function: Callable[..., Any], *arguments: str) -> Any:
        """What a function returns at a worker, or the exception that it raises there."""
        try:
            return (await self._client.run(function, *arguments, workers=[address], on_error="return"))[address]
        except Exception as error:
            return error

    def _hear(self, address: str, asked: _Asked, probe: Probe) -> None:
        """Look at the answer of a worker that was asked: warn of one that does not fit, and ask it again later."""
        now = self._clock()
        if not asked.answer.done():
            if now - asked.since > SLOW_SECONDS and not asked.said:
                asked.said = True
                self._warn(f"worker {address} gets no work: it has not answered for {now - asked.since:.0f} s")
            return
        reason = "" if asked.answer.cancelled() else str(asked.answer.exception() or asked.answer.result())
        if reason.startswith(UNSEEN) and asked.probe != probe and not asked.reason:  # that probe is removed
            asked.answer, asked.probe = self._ask(address, probe), probe
        elif reason and reason != asked.reason:
            if not asked.said:
                self._warn(f"worker {address} gets no work: it {reason}")
            asked.reason, asked.said, asked.since = reason, True, now
        elif now - asked.since > ASK_AGAIN_SECONDS:
            asked.answer, asked.probe, asked.since = self._ask(address, probe), probe, now
