"""Who computes: this process, local worker processes, or a Dask scheduler somewhere.

Holds no stage. Only paths and ranges travel to workers, never arrays.
"""

from __future__ import annotations

from xpipe.engine.cluster.calls import Call, Cluster, ClusterParams, InProcess, Outcome, Preparation, execute
from xpipe.engine.cluster.definition import is_address
from xpipe.engine.progress import Says, Silent
from xpipe.errors import ConfigError

__all__ = ["Call", "Cluster", "ClusterParams", "Outcome", "Preparation", "connect", "execute"]


def connect(params: ClusterParams, says: Says | None = None) -> Cluster:
    """The cluster that a pipeline's section `cluster` describes. Nothing is started yet.

    says: told what the cluster waits for; by default nobody is told. Raises ConfigError for a tls:// address without
    certificates, for a name that was not looked up (`config.clusters` does that), and for a class that is not there.
    """
    says = says or Silent()
    if params.kind == "none":
        return InProcess()
    if params.kind == "local":
        from xpipe.engine.cluster.local import LocalWorkers

        return LocalWorkers(params, says)
    from xpipe.engine.cluster.remote import RemoteWorkers

    if is_address(params.kind):
        return RemoteWorkers(params, says)
    definition = params.definition
    if definition is None:
        fix = f"run it by a pipeline file or by `xpipe cluster {params.kind}`, which look it up in your clusters.yaml"
        raise ConfigError(f"no cluster {params.kind!r}", why="nobody looked this name up", fix=fix)
    if definition.address is not None:
        return RemoteWorkers(params, says, definition.address)
    from xpipe.engine.cluster.started import StartedWorkers

    return StartedWorkers(params, definition, says)
