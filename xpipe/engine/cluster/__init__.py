"""Who computes: this process, local worker processes, or a Dask scheduler somewhere.

Holds no stage. Only paths and ranges travel to workers, never arrays.
"""

from __future__ import annotations

from xpipe.engine.cluster.calls import Call, Cluster, ClusterParams, InProcess, Outcome, execute
from xpipe.engine.progress import Says, Silent

__all__ = ["Call", "Cluster", "ClusterParams", "Outcome", "connect", "execute"]


def connect(params: ClusterParams, says: Says | None = None) -> Cluster:
    """The cluster that a pipeline's section `cluster` describes. Nothing is started yet.

    says: told what the cluster waits for; by default nobody is told. Raises ConfigError for a tls:// address without
    certificates.
    """
    says = says or Silent()
    if params.kind == "none":
        return InProcess()
    if params.kind == "local":
        from xpipe.engine.cluster.local import LocalWorkers

        return LocalWorkers(params, says)
    from xpipe.engine.cluster.remote import RemoteWorkers

    return RemoteWorkers(params, says)
