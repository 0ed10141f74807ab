"""Asks every worker of a Dask cluster when it joins, whenever that is, and lets those that fit in.

Starts nothing, connects nothing, and knows no calls. A worker that fits gets a pass: a Dask resource that every call of
this stage asks for. So no other worker is ever given a call, not even a new process at the address of a worker that
fitted. Before the first worker of a machine gets the pass, it compiles the kernels of the stage. The others of that
machine wait for it, and find them compiled.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from xpipe.engine.cluster.calls import Preparation
from xpipe.engine.cluster.check import UNSEEN, Probe, admit, compile_kernels, describe_worker, misfit, to_facts
from xpipe.engine.cluster.facts import WorkerFacts
from xpipe.ground import files

COMPILE_SECONDS = 1800.0  # the longest wait for another worker of the same machine to compile
SLOW_SECONDS = 60.0  # a worker that has not answered after this time is mentioned in a warning
ASK_AGAIN_SECONDS = 10.0  # a worker that did not fit is asked again: a shared folder may be slow to show new files
NAMED = 5  # workers that one error names


@dataclass
class _Asked:
    """A worker that was asked. reason: why it does not fit. said: whether the user was told."""

    answer: Future[str]
    probe: Probe
    since: float
    reason: str = ""
    said: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the answer is still awaited."""
        return not self.reason and not self.answer.done()


class Doorkeeper:
    """Asks the workers of a client, without ever waiting for one of them."""

    def __init__(self, client: Any, warn: Callable[[str], None], clock: Callable[[], float] = time.monotonic):
        """Ask nobody yet. warn: told of workers that do not fit. clock: for tests."""
        self._client, self._warn, self._clock = client, warn, clock
        self._asked: dict[tuple[str, str], _Asked] = {}
        self._known: dict[str, dict[str, Any]] = {}  # what the scheduler knows of each worker, by address
        self._compiling: dict[tuple[str, str], asyncio.Future[Any]] = {}  # by machine and stage
        self._told_of: set[tuple[str, str, bool]] = set()  # workers that were in `arrived`, and whether they fitted
        self.arrived: deque[WorkerFacts] = deque()  # workers that answered, for whoever tells of them
        self.compiled: deque[tuple[str, float]] = deque()  # machines that compiled the stage's kernels, and the seconds
        self.prepare(Preparation())

    def prepare(self, preparation: Preparation) -> None:
        """Ask all workers anew, because the calls that follow need this preparation. Passes of before are no use."""
        self._preparation = preparation
        self.pass_name = f"xpipe-{secrets.token_hex(8)}"
        for worker, asked in list(self._asked.items()):
            if not asked.reason and not asked.said:
                self._asked.pop(worker).answer.cancel()

    def admitted(self, workers: dict[str, dict[str, Any]], probe: Probe) -> int:
        """How many of these workers have the pass. Those that were not asked yet are asked.

        workers: what the scheduler knows of each worker, by address.
        """
        self._known = workers
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

    def count_open(self) -> int:
        """How many workers have not answered yet."""
        return sum(asked.is_open for asked in self._asked.values())

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
        preparation, pass_name, known = self._preparation, self.pass_name, self._known.get(address, {})
        sent = time.time()
        answer = await self._at(address, describe_worker, probe.path, probe.text)
        reason = misfit(answer, files.parent(probe.path), preparation.releases)
        facts = to_facts(answer, address, known, sent, reason)
        if not reason:
            reason = await self._compile_once(address, facts.host, preparation)
        if not reason:
            refusal = await self._at(address, admit, pass_name)
            reason = misfit(refusal, "") if refusal is not None else ""
        told = (address, str(known.get("local_directory")), not reason)
        if told not in self._told_of:
            self._told_of.add(told)
            self.arrived.append(replace(facts, reason=reason))
        return reason

    async def _compile_once(self, address: str, host: str, preparation: Preparation) -> str:
        """Let one worker of each machine compile the kernels of a stage. Returns why this worker cannot, or ""."""
        key = (host, preparation.stage)
        while True:
            running = self._compiling.get(key)
            mine = running is None
            if running is None:
                running = asyncio.ensure_future(self._at(address, compile_kernels, preparation.compile))
                self._compiling[key] = running
            try:
                answer = await asyncio.wait_for(asyncio.shield(running), COMPILE_SECONDS)
            except TimeoutError:
                return f"waits for kernels of stage {preparation.stage}, which {host} did not compile in time"
            if isinstance(answer, float):
                if mine:
                    self.compiled.append((host, answer))
                return ""
            if self._compiling.get(key) is running:
                del self._compiling[key]  # another worker may do better
            if mine:
                return f"cannot compile the kernels of stage {preparation.stage} ({type(answer).__name__}: {answer})"

    async def _at(self, address: str, function: Callable[..., Any], *arguments: Any) -> Any:
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
