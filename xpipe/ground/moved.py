"""Modules and names of release 0.1 under their old names: they work for one more release, with a DeprecationWarning.

Holds the table of moved modules. The old names of a room stand beside its public names, in its `__init__.py`.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

GROUND = (
    "accelerate", "backend", "checked_json", "files", "lazy", "library_threads", "machine", "npy_header", "os_errors",
    "private", "safetensors_header", "seeding", "sparse",
)  # fmt: skip
ENGINE = ("cluster", "locks", "places", "registry", "results", "sources", "store", "wiring")
MOVED = {
    **{name: f"ground.{name}" for name in GROUND},
    **{name: f"engine.{name}" for name in ENGINE},
    "argmaxability.command": "cli.verify_command",
    "argmaxability.display": "cli.verify_tables",
    "argmaxability.head": "argmaxability.output_layer",
    "argmaxability.layer": "argmaxability.layer_files",
    "argmaxability.unit": "argmaxability.block",
    "cleaning": "engine.prune",
    "clustering": "grouping.clustering",
    "console": "cli.console",
    "doctor": "cli.examination",
    "exporting": "engine.export",
    "matrix": "engine.sweep",
    "metrics.tables": "cli.metric_tables",
    "pipeline": "engine",
    "printable": "errors",
    "progress": "cli.progress",
    "stages.stage": "engine.stage",
    "synth_model": "synth",
    "units": "ground.quantities",
}


class OldNames(MetaPathFinder, Loader):
    """Imports a moved module under its old name: `import xpipe.store` gives `xpipe.engine.store`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A specification for the old name of a moved module, None for any other name."""
        package, _, name = fullname.partition(".")  # `import sparse` of another library is none of ours
        return ModuleSpec(fullname, self) if package == "xpipe" and name in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module under its new name."""
        new = f"xpipe.{MOVED[spec.name.removeprefix('xpipe.')]}"
        warnings.warn(f"{spec.name} is {new} now; the old name goes with the next release", DeprecationWarning, 2)
        module = importlib.import_module(new)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own specification back: the import system has just set that of the old name."""
        module.__spec__ = self._own_spec


def find_old_names() -> None:
    """Make moved modules importable under their old names."""
    sys.meta_path.append(OldNames())  # last, so that it is asked only about names that nothing else finds


def renamed(room: str, names: Mapping[str, str], name: str) -> Any:
    """The attribute of a room under its old name, with a DeprecationWarning; `names` maps old names to new ones."""
    new = names[name]
    warnings.warn(f"{room}.{name} is {room}.{new} now; the old name goes with the next release", DeprecationWarning, 3)
    return getattr(importlib.import_module(room), new)
