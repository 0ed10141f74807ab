"""A Dask scheduler that others started, at tcp://host:port or tls://host:port. `dask_calls` hands out the calls.

Starts no workers: `started` does, and treats them as those here are treated. Whoever reaches a tcp:// port can run code
as its workers, so such a scheduler trusts its whole network. With tls:// both sides need certificates, which Dask's own
configuration names.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from typing import Any

from xpipe.engine.cluster.calls import ClusterParams, Preparation
from xpipe.engine.cluster.check import Probe
from xpipe.engine.cluster.dask_calls import POLL_SECONDS, DaskCluster, silence_dask
from xpipe.engine.cluster.doorkeeper import Doorkeeper
from xpipe.engine.cluster.facts import differences, facts_here, joined, table
from xpipe.engine.cluster.waiting import Wait
from xpipe.engine.progress import Says
from xpipe.errors import ConfigError, ResourceError
from xpipe.ground import files
from xpipe.ground.quantities import parse_bytes, parse_duration
from xpipe.ground.temporary_names import temporary_name

CONNECT_SECONDS = 120.0  # the longest wait for a scheduler to answer; it answers before any worker joins
REFUSED_SECONDS = 30.0  # the longest wait for a worker that fits, while all that have joined do not fit
GATHER_SECONDS = 5.0  # the longest wait for the other workers' answers, before the table of workers is shown
SLOW_COMPILATION = 2.0  # seconds; a compilation that takes longer is mentioned
CLOSE_SECONDS = 30.0
TLS_SETTINGS = ("CA_FILE", "CLIENT__CERT", "CLIENT__KEY")


class RemoteWorkers(DaskCluster):
    """`cluster: tcp://...`: every worker is checked when it joins, whenever that is."""

    def __init__(self, params: ClusterParams, says: Says, address: str = ""):
        """Connect to nothing yet. address: where the name of a cluster stands for one. Raises ConfigError for a tls://
        address without certificates.
        """
        super().__init__(params, says)
        self.address = address or params.kind
        self.wanted = 1  # workers that must fit before the first call is sent
        self._security = _security(self.address)
        self._doorkeeper: Doorkeeper | None = None
        self._preparation = Preparation()
        self._probe = Probe("", "")
        self._here = facts_here(parse_bytes(params.memory_limit))
        self._tabled = False
        self._differing: set[str] = set()

    def describe(self) -> dict[str, Any]:
        """What results.json says of the cluster."""
        return {"kind": "scheduler", "workers": self.workers}

    def prepare(self, preparation: Preparation) -> None:
        """Say what workers need for the calls that follow. Each gets it before it gets work."""
        self._preparation = preparation
        if self._doorkeeper is not None:
            self._doorkeeper.prepare(preparation)

    def refusals(self) -> str:
        """Why workers that have joined get no work; "" if all of them get some."""
        return self._keeper().reasons() if self._doorkeeper is not None else ""

    def _open(self, parts: contextlib.ExitStack) -> Any:
        """Connect to the scheduler. Returns the client."""
        silence_dask()
        client = self._connect()
        parts.callback(_close, client)
        self._keep_the_door(client, parts)
        return client

    def _keep_the_door(self, client: Any, parts: contextlib.ExitStack) -> None:
        """Check workers of this client from now on."""
        self._doorkeeper = Doorkeeper(client, self.says.warn)
        self._doorkeeper.prepare(self._preparation)
        parts.callback(self._doorkeeper.leave)

    def _connect(self) -> Any:
        """A client of the scheduler, which may take a while to answer. Raises ResourceError if it never answers."""
        from distributed import Client

        patience = min(CONNECT_SECONDS, parse_duration(self.params.worker_timeout))
        wait = Wait(f"the Dask scheduler at {self.address}", patience, self.says.note)
        attempt = 10.0
        failure: Exception | None = None
        while wait.goes_on():
            try:
                return Client(
                    self.address,
                    timeout=max(1.0, min(attempt, wait.left)),
                    security=self._security,
                    set_as_default=False,
                )
            except Exception as error:  # Dask raises anything from OSError to TypeError for an address
                failure = error
                self.says.note(f"no answer yet from {self.address}, giving up after {patience:.0f} s")
                attempt *= 2
                time.sleep(min(POLL_SECONDS, wait.left))
        raise ResourceError(
            f"no Dask cluster with a worker at {self.address}",
            why=str(failure) or type(failure).__name__,
            fix="check the address, and that workers are connected: dask worker tcp://host:port",
        ) from failure

    @contextlib.contextmanager
    def _admission(self, folder: str) -> Iterator[None]:
        """Put a probe into the folder, by which workers show that they see it, and wait for a worker that fits."""
        self._probe = Probe(files.join(folder, temporary_name("probe")), secrets.token_hex(16))
        try:
            if not files.is_local(folder) or os.path.isdir(folder):
                files.write_bytes(self._probe.path, self._probe.text.encode())
            self._wait_for_a_worker(folder)
            yield
        finally:
            with contextlib.suppress(Exception):
                files.remove(self._probe.path)

    def _wait_for_a_worker(self, folder: str) -> None:
        """Wait until enough workers fit. Raises ResourceError, with the reasons, if they do not in time."""
        wait = Wait(self._awaited(), parse_duration(self.params.worker_timeout), self.says.note)
        refused = Wait("", min(REFUSED_SECONDS, wait.limit), lambda _: None)
        known: set[str] = set()
        fit = 0
        while wait.goes_on():
            self._raise_if_lost(folder)
            workers = self._look() or {}
            fit = self._usable(workers)
            if fit >= self.wanted:
                self._tell_of_workers()
                return
            if workers.keys() - known or self._keeper().count_refused() < max(1, len(workers)):
                refused.again()
            known |= workers.keys()
            if not refused.goes_on():
                break
            time.sleep(POLL_SECONDS)
        self._tell_of_workers()
        count = f" ({fit} of {self.wanted} workers)" if self.wanted > 1 else ""
        raise ResourceError(
            f"no Dask cluster with a worker at {self.address} that can be used{count}",
            where=folder,
            why=self._unusable() or f"no {'other ' * (fit > 0)}worker has joined for {wait.seconds:.0f} s",
            fix=self._how_to_get_workers(),
        )

    def _awaited(self) -> str:
        """What is waited for before the first call."""
        return "a Dask worker that fits" if self.wanted == 1 else f"{self.wanted} Dask workers that fit"

    def _how_to_get_workers(self) -> str:
        """What to try where no worker fits."""
        return "start workers that fit: dask worker tcp://host:port; or raise cluster.worker_timeout"

    def _tell_of_workers(self) -> None:
        """Before the first call show one table of all workers; later one line for each machine whose workers joined.

        What differs from this process is said once.
        """
        keeper = self._keeper()
        if not self._tabled:
            gather = Wait("", GATHER_SECONDS, lambda _: None)
            while keeper.count_open() and gather.goes_on():
                time.sleep(POLL_SECONDS / 10)
        arrived = [keeper.arrived.popleft() for _ in range(len(keeper.arrived))]
        if arrived and not self._tabled:
            self._tabled = True
            self.says.note(table(arrived, self._here))
        elif arrived:
            for line in joined(arrived, self._here):
                self.says.note(line)
        for text in differences(arrived, self._here, self._differing):
            self.says.warn(text)
        compiled = [keeper.compiled.popleft() for _ in range(len(keeper.compiled))]
        slow = max((seconds for _, seconds in compiled), default=0.0)
        if slow > SLOW_COMPILATION:
            hosts = {host for host, _ in compiled}
            where = f"on {hosts.pop()}" if len(hosts) == 1 else f"on each of {len(hosts)} machines"
            self.says.note(f"{self._preparation.stage}: compiled its kernels in {slow:.0f} s, once {where}")

    def _keeper(self) -> Doorkeeper:
        """The doorkeeper of the open connection."""
        assert self._doorkeeper is not None  # made when the cluster opens
        return self._doorkeeper

    def _submission(self) -> dict[str, Any]:
        """Ask for the pass that only workers that fit have."""
        return {"resources": {self._keeper().pass_name: 1}}

    def _usable(self, workers: dict[str, dict[str, Any]]) -> int:
        """How many of these workers have the pass. Those that are new are asked."""
        keeper = self._keeper()
        admitted = keeper.admitted(workers, self._probe)
        self.workers = max(1, len(workers) - keeper.count_refused())  # workers that are being asked count, too
        if self._tabled:
            self._tell_of_workers()
        return admitted

    def _unusable(self) -> str:
        """Why workers that have joined have no pass."""
        return self._keeper().reasons()


def _close(client: Any) -> None:
    """Close the connection. Errors while it closes do not matter any more."""
    with contextlib.suppress(Exception):
        client.close(timeout=CLOSE_SECONDS)


def _security(address: str) -> Any:
    """The certificates that Dask's configuration files and environment variables name. None without TLS."""
    if not address.startswith(("tls://", "wss://")):
        return None
    from distributed import Security

    try:
        security = Security()
        usable = security.get_connection_args("client")["ssl_context"] is not None
        why = "" if usable else "no certificates are named"
    except Exception as error:  # a missing file, or one that is no certificate: OSError, SSLError, ValueError
        why = f"the certificates cannot be used: {error}"
    if why:
        names = " and ".join(f"DASK_DISTRIBUTED__COMM__TLS__{name}" for name in TLS_SETTINGS)
        raise ConfigError(
            f"{address} needs certificates",
            why=why,
            fix=f"set {names} to files in PEM format, or distributed.comm.tls in ~/.config/dask/distributed.yaml",
        )
    return security
