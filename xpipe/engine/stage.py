"""What a stage is: a declaration (name, version, reads, writes, params) and functions. Knows no particular stage."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xpipe.engine.context import Context
from xpipe.engine.manifest import Artifact
from xpipe.engine.messages import FileEntry
from xpipe.engine.params import Params, canonical_params
from xpipe.engine.sources import Watched
from xpipe.errors import XpipeError


@dataclass
class Produced:
    """What a stage made: {artifact: (files, facts)}, and a summary for people. Other files in its folder go."""

    artifacts: dict[str, tuple[Sequence[FileEntry], dict[str, Any]]]
    summary: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Estimate:
    """How much work a stage has: the rows, and the bytes of memory that a worker needs. None: not known yet."""

    rows: int | None = None
    memory: int | None = None


@dataclass(frozen=True)
class Outlook:
    """What is known before the first stage runs. None: not known before the data is read.

    sections: all sections of the pipeline, by name. splits: the names of the splits. labelled: the splits whose samples
    have labels. rows: for each split, the most rows it can have. n_labels: the number of labels.
    """

    sections: Mapping[str, Any] = field(default_factory=dict)
    splits: tuple[str, ...] | None = None
    labelled: tuple[str, ...] | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    n_labels: int | None = None


def _whole_section(params: Any, inputs: dict[str, Artifact], store: Watched) -> dict[str, Any]:
    """The default of `Stage.identity`: all parameters."""
    return canonical_params(params)


def _unknown(params: Any, inputs: dict[str, Artifact]) -> Estimate:
    """The default of `Stage.estimate`: nothing is known."""
    return Estimate()


def _no_problem(params: Any, outlook: Outlook) -> list[XpipeError]:
    """The default of `Stage.preflight`: no problem can be foreseen."""
    return []


def _no_words(summary: dict[str, Any]) -> str:
    """The default of `Stage.describe`: an empty line."""
    return ""


def _switched_on(params: Any) -> bool:
    """The default of `Stage.enabled`: the stage runs whenever its section is given."""
    return True


def _on_cpu_only(params: Any) -> bool:
    """The default of `Stage.uses_backend`: the stage always runs on the CPU."""
    return False


def _no_folders(params: Any) -> dict[str, str]:
    """The default of `Stage.input_folders`: the stage reads no folder of the user."""
    return {}


@dataclass(frozen=True)
class Stage:
    """One step of a pipeline. Functions are given `params`, the checked section of the pipeline file.

    Attributes
    ----------
    name, section : str
        The name of the stage, and the key of the pipeline file that switches it on.
    version : int
        Goes up when the output for the same input changes.
    reads, writes : tuple of str
        Names of artifacts. In `reads`, "a|b+c" means the first alternative (a, else b and c together) that earlier
        stages write. A trailing "?" means that the artifact may be absent.
    params : type
        The class of its section.
    run : function of a Context
        Does the work.
    seeded : bool or function
        Whether the output depends on the seed; `seeded(params)` where that depends on the section.
    exports : tuple of str
        Artifacts that are laid out in the run's folder. Each file of an exported artifact lies below a folder with the
        artifact's name; the rest of its path is its path in the run's folder.
    outputs : tuple of str
        Names in the run's folder that hold its exports: folders, or single files.
    enabled : function
        `enabled(params)` is False where the section is given, but does not ask for this stage.
    needs, provides : function, optional
        `needs(params)` narrows `reads`, and `provides(params)` narrows `writes`, to what this pipeline really has.
    input_folders : function
        `input_folders(params)`: the folders of the user that it reads, by the name of the setting. The run must not
        write there.
    foresee : function, optional
        `foresee(params, outlook)` adds to the outlook what this stage will write.
    preflight : function
        `preflight(params, outlook)` lists every problem that is bound to make this stage fail, before any stage runs.
    identity : function
        `identity(params, inputs, store)`: what the output depends on, besides inputs, seed and version. Never a path.
    uses_backend : function
        `uses_backend(params)`: whether CPU and GPU write different bytes.
    libraries : tuple of str
        Packages of which another release may write different bytes.
    estimate : function
        `estimate(params, inputs)`: rows and memory.
    compile : function, optional
        Compiles the stage's kernels by calling them, in a process of its own before local workers need them. Otherwise
        all workers, which share one cache of compiled code, would compile them at the same time.
    kernels : str
        The room of these kernels. Stages that share a room are compiled one after the other.
    describe : function
        `describe(summary)`: one line about what it made, for the table at the end of a run.
    counts : str
        What its progress counts.
    instead : str
        What else helps where no stage writes what it reads.
    packages, extra : tuple of str, str
        Packages that must be installed, and the extra of xpipe that installs them.
    usual : bool
        Whether the stage is on unless its section is `none`. It is left out where no stage writes what it reads.
    conclude : function, optional
        `conclude(params, results, out)`: files that tell of the whole run, times included, as {name: content}. It is
        called when everything else is in the run's folder `out`. results: the content of results.json.
    conclude_sweep : function, optional
        `conclude_sweep(params, table, out)`: the same for all runs of a matrix. table: the content of table.json.
    """

    name: str
    section: str
    version: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    params: type[Params]
    run: Callable[[Context[Any]], Produced]
    seeded: bool | Callable[[Any], bool] = False
    exports: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    enabled: Callable[[Any], bool] = _switched_on
    needs: Callable[[Any], tuple[str, ...]] | None = None
    provides: Callable[[Any], tuple[str, ...]] | None = None
    input_folders: Callable[[Any], dict[str, str]] = _no_folders
    foresee: Callable[[Any, Outlook], Outlook] | None = None
    preflight: Callable[[Any, Outlook], list[XpipeError]] = _no_problem
    identity: Callable[[Any, dict[str, Artifact], Watched], dict[str, Any]] = _whole_section
    uses_backend: Callable[[Any], bool] = _on_cpu_only
    libraries: tuple[str, ...] = ()
    estimate: Callable[[Any, dict[str, Artifact]], Estimate] = _unknown
    compile: Callable[[], None] | None = None
    kernels: str = ""
    describe: Callable[[dict[str, Any]], str] = _no_words
    counts: str = "rows"
    instead: str = ""
    packages: tuple[str, ...] = ()
    extra: str = ""
    usual: bool = False
    conclude: Callable[[Any, Mapping[str, Any], str], dict[str, bytes]] | None = None
    conclude_sweep: Callable[[Any, Mapping[str, Any], str], dict[str, bytes]] | None = None

    def is_seeded(self, params: Any) -> bool:
        """Whether the output depends on the seed."""
        return self.seeded(params) if callable(self.seeded) else self.seeded

    def releases(self) -> dict[str, str]:
        """The installed release of each of its libraries."""
        from importlib import metadata

        found = {}
        for name in self.libraries:
            with contextlib.suppress(metadata.PackageNotFoundError):
                found[name] = metadata.version(name)
        return found
