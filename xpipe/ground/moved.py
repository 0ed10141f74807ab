"""Modules under the names they had in release 0.1: they work for one more release, with a warning."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

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
    "synth_model": "synth.model",
    "units": "ground.quantities",
}


class OldNames(MetaPathFinder, Loader):
    """Finds `xpipe.store` and gives `xpipe.engine.store`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname.removeprefix("xpipe.") in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        new = f"xpipe.{MOVED[spec.name.removeprefix('xpipe.')]}"
        warnings.warn(f"{spec.name} is {new} now; the old name goes with the next release", DeprecationWarning, 2)
        module = importlib.import_module(new)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own_spec  # the import system has just set that of the old name


def find_old_names() -> None:
    sys.meta_path.append(OldNames())  # last: only names that nobody else knows
