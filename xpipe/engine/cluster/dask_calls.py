"""Hands calls to Dask workers, wherever they are, and collects the outcomes. Every wait has an end.

Starts and checks no workers: `local` and `remote` do that.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import time
from collections.abc import Callable
from typing import Any

from xpipe.engine.cluster.calls import Call, ClusterParams, Outcome, Preparation, execute, explain_failure
from xpipe.engine.cluster.waiting import Wait
from xpipe.engine.progress import Says
from xpipe.errors import ResourceError, XpipeError
from xpipe.ground.quantities import format_bytes, parse_duration

RETRIES = 3  # how often a call whose worker died is given to another worker
POLL_SECONDS = 0.5
LOOK_SECONDS = 2.0  # the time between two looks at the workers while calls finish all the time
ANSWER_SECONDS = 20.0  # the longest wait for one answer of the scheduler; it is asked again and again
SILENCE = logging.CRITICAL + 1

Futures = dict[str, tuple[Any, Call]]  # Dask's futures by their keys, each with its call


def silence_dask() -> None:
    """Switch off Dask's own log, since our errors explain what went wrong."""
    import distributed  # noqa: F401  # sets the levels of some of its loggers when it is imported

    known = [name for name in logging.root.manager.loggerDict if name.startswith("distributed.")]
    for name in (*known, "distributed", "tornado.application", "asyncio"):
        logging.getLogger(name).setLevel(SILENCE)


class DaskCluster:
    """A scheduler and its workers. It is connected at the first call, so a cached run starts nothing."""

    def __init__(self, params: ClusterParams, says: Says):
        """Connect to nothing yet. says: told what the cluster waits for."""
        self.params, self.says = params, says
        self.workers = params.workers
        self._client: Any = None
        self._parts = contextlib.ExitStack()
        self._seen: dict[str, tuple[int, int]] = {}  # for each worker's address, its memory when last seen, its limit

    @property
    def ready(self) -> bool:
        """Whether it is connected."""
        return self._client is not None

    def open(self) -> None:
        """Start the workers, or connect to them."""
        if self._client is not None:
            return
        try:
            self._client = self._open(self._parts)
        except BaseException:  # what was started already must not wait for somebody to call close
            self.close()
            raise

    def prepare(self, preparation: Preparation) -> None:
        """Say what workers need for the calls that follow. Workers of this machine need nothing: it is done here."""

    def run(self, calls: list[Call], on_done: Callable[[Call, Outcome], None]) -> None:
        """Run all calls. `on_done` is called with each finished one, in the caller's thread.

        Raises the error of the first call that failed, in the user's terms. Finished units keep their receipts.
        """
        self.open()
        finished: queue.Queue[Any] = queue.Queue()
        futures: Futures = {}
        with self._admission(calls[0].folder):
            try:
                options = self._submission()
                for call in calls:
                    future = self._client.submit(execute, call, pure=False, retries=0, **options)
                    futures[future.key] = (future, call)
                    future.add_done_callback(finished.put)
                self._collect(futures, finished, on_done)
            finally:
                for future, _ in futures.values():  # calls that have not begun are dropped, without waiting
                    with contextlib.suppress(Exception):
                        future.release()

    def close(self) -> None:
        """Close the connection, and stop workers that were started."""
        self._client = None
        self._parts.close()

    def describe(self) -> dict[str, Any]:
        """What results.json says of the cluster."""
        raise NotImplementedError

    def _open(self, parts: contextlib.ExitStack) -> Any:
        """A connected client. Whatever must be closed later is put into `parts`."""
        raise NotImplementedError

    def _admission(self, folder: str) -> contextlib.AbstractContextManager[None]:
        """A context for calls that write to `folder`. Entering it waits until a worker can be given calls."""
        return contextlib.nullcontext()

    def _submission(self) -> dict[str, Any]:
        """Further options of a submission, which select the workers for the call."""
        return {}

    def _usable(self, workers: dict[str, dict[str, Any]]) -> int:
        """How many of these workers can be given calls."""
        return len(workers)

    def _unusable(self) -> str:
        """Why workers that have joined are given no calls; "" if there are no such workers."""
        return ""

    def _collect(self, futures: Futures, finished: queue.Queue[Any], on_done: Callable[[Call, Outcome], None]) -> None:
        """Wait for all futures, and hand their outcomes on. Finished futures arrive in the queue `finished`."""
        patience = parse_duration(self.params.worker_timeout)
        task = Wait("a task to finish", parse_duration(self.params.task_timeout), lambda _: None)
        worker = Wait("a Dask worker", patience, self.says.note)
        answer = Wait("the Dask scheduler's answer", patience, self.says.note)
        looked = 0.0
        lost: list[Any] = []  # finished futures whose worker left or hangs before it handed over the outcome
        while futures:
            future = None
            with contextlib.suppress(queue.Empty):
                future = finished.get(timeout=POLL_SECONDS)
            if future is not None:
                call = futures[future.key][1]
                outcome = self._outcome(call, future)
                if outcome is None:
                    lost.append(future)
                else:
                    del futures[future.key]
                    task.again()
                    on_done(call, outcome)
            if futures and (future is None or time.monotonic() - looked > LOOK_SECONDS):
                self._raise_if_lost(_first(futures))
                while lost:
                    finished.put(lost.pop())
                workers = self._look()
                looked = time.monotonic()
                if workers is not None:
                    answer.again()
                    if self._usable(workers):
                        worker.again()
                self._give_up_if_stuck(futures, task, worker, answer)

    def _outcome(self, call: Call, future: Any) -> Outcome | None:
        """The outcome of a call. None where its worker is gone: maybe another worker does it again."""
        if future.status in ("finished", "pending", "lost"):
            try:
                outcome: Outcome = future.result(timeout=ANSWER_SECONDS)
                return outcome
            except TimeoutError:
                return None
            except Exception as error:
                if future.status not in ("error", "cancelled"):
                    raise self._explain(call, error) from error
        if future.status == "cancelled":
            self._raise_if_lost(call.label)
            raise ResourceError(
                "the Dask scheduler dropped a task", where=call.label, fix="give the same command again to go on"
            )
        raise self._explain(call, future.exception(timeout=ANSWER_SECONDS))

    def _look(self) -> dict[str, dict[str, Any]] | None:
        """What the scheduler knows of its workers, by address. None if it does not answer."""
        try:
            ask = self._client.scheduler.identity
            found = self._client.sync(ask, callback_timeout=ANSWER_SECONDS, asynchronous=False)
        except Exception:
            return None
        workers: dict[str, dict[str, Any]] = found["workers"]
        for address, facts in workers.items():
            self._seen[address] = (facts.get("metrics", {}).get("memory", 0), facts.get("memory_limit") or 0)
        return workers

    def _raise_if_lost(self, where: str) -> None:
        """Raise ResourceError if the connection to the scheduler is lost."""
        if self._client.status != "running":
            raise ResourceError(
                "the connection to the Dask scheduler is lost",
                where=where,
                fix="start the scheduler again, then give the same command: finished chunks are kept",
            )

    def _give_up_if_stuck(self, futures: Futures, task: Wait, worker: Wait, answer: Wait) -> None:
        """Raise ResourceError if one of the waits has lasted too long."""
        label = _first(futures)
        if not answer.goes_on():
            raise ResourceError(
                f"the Dask scheduler has not answered for {answer.seconds:.0f} s",
                where=label,
                fix="see what became of it, then give the same command: finished chunks are kept",
            )
        if not worker.goes_on():
            raise ResourceError(
                f"no Dask worker for {worker.seconds:.0f} s",
                where=label,
                why=self._unusable() or "every worker has left and none came back",
                fix="start workers, or raise cluster.worker_timeout; finished chunks are kept",
            )
        if not task.goes_on():
            raise ResourceError(
                f"no task finished for {task.seconds:.0f} s",
                where=f"{label} and {len(futures) - 1} more",
                fix="lower cluster.chunk_rows or raise cluster.task_timeout; finished chunks are kept",
            )

    def _explain(self, call: Call, error: BaseException | None) -> XpipeError:
        """The error that tells the user what an exception of a call, or the death of its worker, means."""
        from distributed.scheduler import KilledWorker

        if not isinstance(error, KilledWorker):
            return explain_failure(call, error)
        last, limit = self._seen.get(error.last_worker.address, (0, 0))
        limit = limit or error.last_worker.memory_limit or 0
        return ResourceError(
            f"a worker died {error.allowed_failures + 1} times on the same chunk",
            where=call.label,
            why=f"last memory seen {format_bytes(last)} of a limit of {format_bytes(limit)}",
            fix="raise cluster.memory_limit or lower cluster.chunk_rows; the same command then keeps finished chunks",
        )


def _first(futures: Futures) -> str:
    """The label of the first call that is not done, for an error."""
    return next(call.label for _, call in futures.values())
