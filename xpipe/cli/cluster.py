"""`xpipe cluster`: tries a cluster without a pipeline. Holds no trial: `engine.cluster.trial` does."""

from __future__ import annotations

from typing import Any

import click


@click.command(short_help="Try a cluster without a pipeline: its workers, the store, a piece of work.")
@click.argument("name", required=False)
@click.option(
    "--store", metavar="FOLDER", default="runs/.store", show_default=True,
    help="The folder or URL that all workers must see: `store` of your pipelines.",
)  # fmt: skip
@click.pass_obj
def cluster(options: dict[str, Any], name: str | None, store: str) -> None:
    """Try the cluster NAME of your clusters.yaml; without NAME, list the clusters there.

    Starts the cluster, shows a table of its workers (versions, memory, cores, whether they see the store, clock), lets
    them do a small piece of work, and closes the cluster. Exit code 0, or 5 with the reasons. NAME may also be local,
    none or an address such as tcp://host:8786.
    """
    from xpipe.cli.console import new_console

    console = new_console()
    if name is None:
        _list(console)
        return
    from xpipe.cli.progress import Progress
    from xpipe.config.clusters import look_up
    from xpipe.engine.cluster.trial import try_cluster
    from xpipe.engine.paths import absolute

    params = look_up(_params(name))
    with Progress(mode=options["progress"]) as progress:
        found = try_cluster(params, absolute(store), progress)
    console.print(
        f"cluster {name}: {_count(found.workers, 'process', 'processes')} on {_count(found.hosts, 'machine')} did "
        f"{found.pieces} pieces of work, {found.seconds:.1f} s from the start of the cluster"
    )
    if len(found.digests) > 1:
        console.print(
            f"warning: sums had {len(found.digests)} different last bits: machines with other types of CPU. A run "
            "finishes on them, but a second run may not give the same bytes",
            style="yellow",
        )


def _count(number: int, one: str, several: str = "") -> str:
    """A number with its noun."""
    return f"{number} {one if number == 1 else several or one + 's'}"


def _params(name: str) -> Any:
    """The section `cluster` with this kind. Raises ConfigError for what cannot be one."""
    from pydantic import ValidationError

    from xpipe.engine.cluster import ClusterParams
    from xpipe.errors import ConfigError

    try:
        return ClusterParams(kind=name)
    except ValidationError as error:
        why = str(error.errors()[0]["ctx"]["error"])
        raise ConfigError(f"no cluster {name!r}", why=f"it {why}", fix="`xpipe cluster` lists the names") from None


def _list(console: Any) -> None:
    """Print one row per cluster of the user's file."""
    from xpipe.cli.console import new_table
    from xpipe.config.clusters import EXAMPLE, clusters_file, read_clusters

    known = read_clusters()
    if not known:
        console.print(f"no clusters in {clusters_file()}; one looks like this:\n  {EXAMPLE}")
        return
    table = new_table("cluster", "what", "workers", numbers=("workers",), title=str(clusters_file()))
    for name, definition in known.items():
        adapt = definition.adapt
        workers = f"{adapt.minimum} to {adapt.maximum}" if adapt is not None else str(definition.workers or "-")
        table.add_row(name, definition.type or definition.address or "", workers)
    console.print(table)
