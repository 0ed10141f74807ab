"""Who computes: this process, local worker processes, or a Dask scheduler somewhere. Only paths and ranges travel."""

from __future__ import annotations

from xpipe.engine.cluster.calls import Call, Cluster, ClusterParams, InProcess, Outcome, Says, Silent, execute

__all__ = ["Call", "Cluster", "ClusterParams", "Outcome", "connect", "execute"]


def connect(params: ClusterParams, says: Says | None = None) -> Cluster:
    """The cluster of this section; raises ConfigError where it is plain that there can be none. Starts nothing yet."""
    says = says or Silent()
    if params.kind == "none":
        return InProcess()
    if params.kind == "local":
        from xpipe.engine.cluster.local import LocalWorkers

        return LocalWorkers(params, says)
    from xpipe.engine.cluster.remote import RemoteWorkers

    return RemoteWorkers(params, says)
