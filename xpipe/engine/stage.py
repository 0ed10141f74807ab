"""What a stage is: a declaration (name, version, reads, writes, params) and functions. Knows no particular stage."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict

from xpipe.errors import XpipeError


class Params(BaseModel):
    """Base of every section of a pipeline file: unknown keys are errors, values do not change after validation."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass
class Produced:
    """What a stage made: {artifact: (files, facts)}, a summary for people, folders to remove once it is published."""

    artifacts: dict[str, tuple[list[dict], dict]]
    summary: dict = field(default_factory=dict)
    scratch: tuple[str, ...] = ()


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


class Context(Protocol):
    """What a stage's `run` may use. `inputs` maps artifact names to finished artifacts."""

    params: Any
    seed: int
    inputs: dict[str, Any]
    folder: str
    backend: Any
    sources: tuple[Any, ...]  # the files from outside the store that `identity` digested

    def map(
        self,
        step: str,
        function: Callable,
        units: Sequence[dict],
        shared: dict | None = None,
        bytes_per_row: float = 0,
        apart: bool = False,
    ) -> list[dict]:
        """Run `function(folder, units, shared)` over units (dicts with `unit` and `rows`) in chunks; receipts in order.

        `apart` makes every unit a task of its own. Units finished by an earlier, interrupted run are not done again.
        """
        ...

    def warn(self, text: str) -> None: ...

    def note(self, text: str) -> None: ...


def canonical_params(params: BaseModel, leave_out: Collection[str] = ()) -> dict[str, Any]:
    """Parameters as sorted plain JSON values for a content key; unset ones are absent, so new options keep old keys.

    Every `identity` takes its parameters from here, and leaves out those that change no byte: an option that is added
    later, with None for "as before", is then in the keys of those who set it, and of nobody else.
    """
    return dict(sorted(params.model_dump(mode="json", exclude_none=True, exclude=set(leave_out)).items()))


def _whole_section(params: Any, inputs: dict, store: Any) -> dict:
    return canonical_params(params)


def _unknown(params: Any, inputs: dict) -> Estimate:
    return Estimate()


def _no_problem(params: Any, outlook: Outlook) -> list[XpipeError]:
    return []


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
    time. `packages` must be installed: xpipe's `extra` has them.
    """

    name: str
    section: str  # the key of the pipeline file that switches it on
    version: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    params: type[Params]
    run: Callable[[Any], Produced]
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
