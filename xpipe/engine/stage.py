"""What a stage is: a declaration (name, version, reads, writes, params) and functions. Knows no particular stage."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xpipe.engine.context import Context
from xpipe.engine.messages import FileEntry
from xpipe.engine.params import Params, canonical_params
from xpipe.errors import XpipeError


@dataclass
class Produced:
    """What a stage made: {artifact: (files, facts)}, and a summary for people. Other files in its folder go."""

    artifacts: dict[str, tuple[Sequence[FileEntry], dict]]
    summary: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Estimate:
    """What a stage will take: rows it works on and bytes of memory a worker needs (None: not known yet)."""

    rows: int | None = None
    memory: int | None = None


@dataclass(frozen=True)
class Outlook:
    """What is known before the first stage runs: all sections of the pipeline, and what the data will be.

    None: not known before it is read. `rows` are the most a split can have, `labelled` the splits with labels of
    samples.
    """

    sections: Mapping[str, Any] = field(default_factory=dict)
    splits: tuple[str, ...] | None = None
    labelled: tuple[str, ...] | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    n_labels: int | None = None


def _whole_section(params: Any, inputs: dict, store: Any) -> dict:
    return canonical_params(params)


def _unknown(params: Any, inputs: dict) -> Estimate:
    return Estimate()


def _no_problem(params: Any, outlook: Outlook) -> list[XpipeError]:
    return []


def _no_words(summary: dict) -> str:
    return ""


def _nothing() -> None:
    pass


def _switched_on(params: Any) -> bool:
    return True


def _on_cpu_only(params: Any) -> bool:
    return False


@dataclass(frozen=True)
class Stage:
    """One step of a pipeline.

    `reads` names artifacts: "a|b+c" means the first alternative (a, else b and c together) that earlier stages write;
    a trailing "?" means it may be absent. `version` goes up when the output for the same input changes.
    `needs(params)` narrows `reads`, and `provides(params)` narrows `writes`, to what this pipeline really has;
    `instead` says what else helps where nobody writes what it reads. `foresee(params, outlook)` adds to the outlook
    what this stage will give; `preflight(params, outlook)` lists all that is bound to fail in this stage, before any
    stage has run. `identity(params, inputs, store)` is what the output depends on besides inputs, seed and version:
    never a path. `uses_backend(params)`: whether CPU and GPU make other bytes; `libraries` are the packages of which
    another release may. `exports` lists artifacts that are laid out in the run's folder. `compile` compiles the stage's
    kernels once, before local workers, who share the machine's cache of compiled code, would all do it at the same
    time. `describe(summary)` is one line about what it made, for the table at the end of a run. `packages` must be
    installed: xpipe's `extra` has them.
    """

    name: str
    section: str  # the key of the pipeline file that switches it on
    version: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    params: type[Params]
    run: Callable[[Context[Any]], Produced]
    seeded: bool = False
    exports: tuple[str, ...] = ()
    enabled: Callable[[Any], bool] = _switched_on
    needs: Callable[[Any], tuple[str, ...]] | None = None
    provides: Callable[[Any], tuple[str, ...]] | None = None
    foresee: Callable[[Any, Outlook], Outlook] | None = None
    preflight: Callable[[Any, Outlook], list[XpipeError]] = _no_problem
    identity: Callable[[Any, dict, Any], dict] = _whole_section
    uses_backend: Callable[[Any], bool] = _on_cpu_only
    libraries: tuple[str, ...] = ()
    estimate: Callable[[Any, dict], Estimate] = _unknown
    compile: Callable[[], None] = _nothing
    describe: Callable[[dict], str] = _no_words
    counts: str = "rows"  # what its progress counts
    instead: str = ""
    packages: tuple[str, ...] = ()
    extra: str = ""

    def releases(self) -> dict[str, str]:
        """The release of each of its libraries that is installed."""
        from importlib import metadata

        found = {}
        for name in self.libraries:
            with contextlib.suppress(metadata.PackageNotFoundError):
                found[name] = metadata.version(name)
        return found
