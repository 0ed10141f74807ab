"""The user's clusters.yaml: names of clusters and what they stand for. Pipeline files hold such a name and no machine.

Starts no cluster and imports no class of one.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from xpipe.config.mistakes import KeyPath, close, explain, note_wrong_flags, shown
from xpipe.config.yaml_lines import Draft, file_order
from xpipe.engine.cluster.calls import KINDS, ClusterParams
from xpipe.engine.cluster.definition import NAME, RESERVED, ClusterDefinition, is_address
from xpipe.errors import ConfigError

VARIABLE = "XPIPE_CLUSTERS"  # names the file where it is not in the usual place
EXAMPLE = "slurm: {type: dask_jobqueue.SLURMCluster, workers: 16, options: {cores: 1, memory: 4GiB}}"


def clusters_file() -> Path:
    """Where clusters.yaml is: `XPIPE_CLUSTERS`, else xpipe/clusters.yaml in the user's configuration folder."""
    if given := os.environ.get(VARIABLE):
        return Path(given).expanduser()
    home = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(home) if os.path.isabs(home) else Path.home() / ".config"  # XDG: relative paths are ignored
    return folder / "xpipe" / "clusters.yaml"


def read_clusters(path: str | os.PathLike[str] | None = None) -> dict[str, ClusterDefinition]:
    """The clusters of a file by name; none where there is no such file.

    Parameters
    ----------
    path : str or path, optional
        The file; by default that of the user, see `clusters_file`.

    Raises
    ------
    ConfigError
        If anything is wrong. It lists every mistake of the file, with its line and close matches.

    Examples
    --------
    >>> from pathlib import Path
    >>> from xpipe.config.clusters import read_clusters
    >>> _ = Path("clusters.yaml").write_text("lab: tcp://head:8786")
    >>> read_clusters("clusters.yaml")["lab"].address
    'tcp://head:8786'
    """
    file = clusters_file() if path is None else Path(path)
    if path is None and not file.exists():
        if not os.environ.get(VARIABLE):
            return {}
        raise ConfigError("the file of clusters is not there", where=f"{VARIABLE}={file}", fix=f"write it: {EXAMPLE}")
    draft = Draft((), subject="the file of clusters", first="lab: tcp://host:8786")
    draft.read(file)
    for name in draft.values:
        if name in RESERVED:
            draft.mistake(draft.place((name,)), (name,), f"must have another name: {name} needs no definition")
        elif not NAME.fullmatch(name):
            text = "must be named by up to 100 letters, digits and . _ - that start with a letter or digit"
            draft.mistake(draft.place((name,)), (name,), text)
    found = {name: _checked(name, value, draft) for name, value in draft.values.items() if (name,) not in draft.told}
    if draft.mistakes:
        count = f"{len(draft.mistakes)} mistakes" if len(draft.mistakes) > 1 else "a mistake"
        lines = "".join(f"\n  {place}: {text}" for place, text in sorted(draft.mistakes, key=file_order))
        fix = f"correct the above; a cluster looks like {EXAMPLE}"
        raise ConfigError(f"the file of clusters {file} has {count}:{lines}", fix=fix)
    return {name: cluster for name, cluster in found.items() if cluster is not None}


def look_up(params: ClusterParams) -> ClusterParams:
    """The params with what their name stands for. Those of other kinds are returned as they are.

    Raises ConfigError for a name that is not in the user's clusters.yaml, and for mistakes in that file.
    """
    if params.kind in RESERVED or is_address(params.kind):
        return params
    if text := unknown_cluster(params.kind):
        raise ConfigError(f"no cluster {params.kind!r}", why=f"`cluster` {text}", fix="`xpipe cluster` lists the names")
    return params.defined(read_clusters()[params.kind])


def unknown_cluster(kind: str) -> str:
    """What to say of a cluster that nobody knows; "" for one that is known, or that is no name at all."""
    if kind in RESERVED or is_address(kind) or not NAME.fullmatch(kind):
        return ""
    known = read_clusters()
    if kind in known:
        return ""
    names = f"({', '.join(known)})" if known else "(it has none)" if clusters_file().exists() else "(not there yet)"
    return f"{KINDS}, or a name in {clusters_file()} {names}, got {shown(kind)}{close(kind, [*RESERVED, *known])}"


@dataclass(frozen=True)
class _Section:
    """The part of a draft below one name: `mistakes` notes the mistakes of this cluster here."""

    draft: Draft
    name: str
    values: dict[str, Any]

    @property
    def told(self) -> set[KeyPath]:
        """The keys of this cluster that have a mistake already."""
        return {path[1:] for path in self.draft.told if path[0] == self.name}

    def place(self, path: KeyPath) -> str:
        """Where a key of this cluster is written."""
        return self.draft.place((self.name, *path))

    def mistake(self, place: str, path: KeyPath, text: str) -> None:
        """Add what is wrong with a key of this cluster."""
        self.draft.mistake(place, (self.name, *path), text)


def _checked(name: str, value: Any, draft: Draft) -> ClusterDefinition | None:
    """One cluster of a draft. Where it has mistakes, they are noted in the draft: then None."""
    section = _Section(draft, name, value if isinstance(value, dict) else {})
    note_wrong_flags(section, ClusterDefinition)
    try:
        return ClusterDefinition.model_validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        explain(error, ClusterDefinition, section)
        return None
