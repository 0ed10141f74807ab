"""Workers that a Dask cluster class starts, such as jobs of SLURM. They are checked and used like those of an address.

Knows no particular class: clusters.yaml names it with its options. Whatever happens, the cluster is closed at the end.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from xpipe.engine.cluster.calls import ClusterParams
from xpipe.engine.cluster.dask_calls import RETRIES, silence_dask
from xpipe.engine.cluster.definition import Adapt, ClusterDefinition
from xpipe.engine.cluster.local import interrupts_for_us_alone
from xpipe.engine.cluster.remote import CLOSE_SECONDS, RemoteWorkers
from xpipe.engine.progress import Says
from xpipe.errors import ConfigError, ResourceError
from xpipe.ground.close_match import did_you_mean
from xpipe.ground.quantities import parse_duration

RESTORE_SECONDS = 20.0  # how often workers that are gone are asked for again; Dask takes 15 s to give one up
ADAPT_SECONDS = 5  # how often Dask looks whether there are too many or too few workers
TASK_SECONDS = "500ms"  # what Dask guesses a task takes: with it as its goal, it asks for one worker per waiting task
PACKAGES = {"dask_jobqueue": "'xpipe[slurm]'"}  # what pip installs for a module, where it is not the module's own name
SIGNALS = (signal.SIGINT, signal.SIGTERM)
SETTINGS: dict[str, Any] = {
    "distributed.scheduler.allowed-failures": RETRIES,
    "distributed.scheduler.http.routes": [],  # a scheduler of this process shows nothing to the network
}


class StartedWorkers(RemoteWorkers):
    """`cluster: NAME`, where the name stands for a class: a cluster that is started at the first call."""

    def __init__(self, params: ClusterParams, definition: ClusterDefinition, says: Says):
        """Start nothing yet. Raises ConfigError if the class is not there."""
        super().__init__(params, says)
        self._definition, self._class = definition, find_class(definition.type or "", params.kind)
        adapt = definition.adapt
        self._target = None if adapt is not None else definition.workers and params.workers
        self._least = params.workers if definition.workers else adapt.maximum if adapt is not None else 1
        self.workers = self._least  # tasks are cut for all workers that were asked for, though they come one by one
        self._cluster: Any = None
        self._restored = 0.0

    def describe(self) -> dict[str, Any]:
        """What results.json says of the cluster."""
        return {"kind": str(self._definition.type), "name": self.params.kind, "workers": self.workers}

    def _open(self, parts: contextlib.ExitStack) -> Any:
        """Start the cluster. Returns the connected client."""
        import dask
        from distributed import Client

        silence_dask()
        parts.enter_context(dask.config.set(SETTINGS))
        self.says.note(f"starting cluster {self.params.kind} ({self._definition.type})")
        try:
            with interrupts_for_us_alone(), warnings.catch_warnings():
                warnings.filterwarnings("ignore", r"\s*Port \d+ is already in use")  # of a dashboard that shows nothing
                cluster = self._class(**secured(self._class, self._definition.options))
                parts.callback(_close, cluster)  # before any worker is asked for
                self._scale(cluster)
                client = Client(cluster, set_as_default=False)
                parts.callback(_close, client)
        except Exception as error:
            raise ResourceError(
                f"cluster {self.params.kind} did not start",
                where=f"{self._definition.type}",
                why=f"{type(error).__name__}: {error}",
                fix="see the `options` of this cluster in your clusters.yaml, and the documentation of its class",
            ) from error
        self.address = str(getattr(cluster, "scheduler_address", self.params.kind))
        self._cluster = cluster
        self._restored = time.monotonic()
        self._keep_the_door(client, parts)
        return client

    def _scale(self, cluster: Any) -> None:
        """Ask for the workers."""
        if self._definition.adapt is not None:
            cluster.adapt(**adaptation(cluster.adapt, self._definition.adapt))
        elif self._target:
            cluster.scale(self._target)

    def _usable(self, workers: dict[str, dict[str, Any]]) -> int:
        """How many of these workers have the pass. Workers that are gone are asked for again."""
        admitted = super()._usable(workers)
        self.workers = max(self.workers, self._least)
        if time.monotonic() - self._restored > RESTORE_SECONDS:
            self._restored = time.monotonic()
            with contextlib.suppress(Exception):  # a scheduler of jobs that is busy now is asked again later
                self._restore(len(workers))
        return admitted

    def _restore(self, present: int) -> None:
        """Ask for as many workers as before: Dask forgets those whose jobs ended, and starts no others by itself."""
        from distributed import SpecCluster

        if self._target and present < self._target:
            self._cluster.scale(self._target)
        elif self._definition.adapt is not None and isinstance(self._cluster, SpecCluster):
            planned = len(self._cluster.plan)
            if present < planned:
                self._cluster.scale(planned)

    def _how_to_get_workers(self) -> str:
        """What to try where no worker fits."""
        return f"try `xpipe cluster {self.params.kind}`; see its jobs and their logs; or raise cluster.worker_timeout"


def find_class(dotted: str, name: str) -> Callable[..., Any]:
    """The class, or function, that starts a Dask cluster. name: of the cluster. Raises ConfigError if it is not there.

    Examples
    --------
    >>> find_class("distributed.LocalCluster", "here").__name__
    'LocalCluster'
    """
    module, _, attribute = dotted.rpartition(".")
    what = f"cluster {name!r} needs {dotted}, which cannot be imported"
    try:
        with _same_signals():
            found = importlib.import_module(module)
    except ImportError as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) and error.name else module
        package = missing.partition(".")[0]
        fix = f"pip install {PACKAGES.get(package, package.replace('_', '-'))}, here and where workers run"
        if missing != package:  # the package is there, a part of it is not
            fix = "correct `type` in your clusters.yaml"
        raise ConfigError(what, why=str(error), fix=fix) from None
    except Exception as error:
        raise ConfigError(what, why=f"{type(error).__name__}: {error}", fix="see whether Python imports it") from error
    known = [other for other in dir(found) if other.endswith("Cluster")]
    if not callable(getattr(found, attribute, None)):
        hint = did_you_mean(attribute, known, cutoff=0.5) or f"{module} has {', '.join(known) or 'no cluster class'}"
        raise ConfigError(what, why=f"{module} has no {attribute}; {hint}", fix="correct `type` in your clusters.yaml")
    cluster: Callable[..., Any] = getattr(found, attribute)
    return cluster


def secured(cluster: Callable[..., Any], options: dict[str, Any]) -> dict[str, Any]:
    """The options of a class, with a key made for this run where the class takes `security` and none is given.

    Jobs read the key from a folder that all machines see: `shared_temp_directory`, by default below the home folder.
    """
    takes = parameters_of(cluster)
    if "security" not in takes or "security" in options or "protocol" in options:
        return options
    from distributed import Security

    found = {**options, "security": Security.temporary()}
    if "shared_temp_directory" in takes and "shared_temp_directory" not in options:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "xpipe"
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        found["shared_temp_directory"] = str(cache)
    return found


def parameters_of(cluster: Callable[..., Any]) -> set[str]:
    """The names of the parameters of a class, those of its base classes included, or of a function."""
    made = [vars(kind).get("__init__") for kind in inspect.getmro(cluster)] if inspect.isclass(cluster) else [cluster]
    return {name for one in made if inspect.isfunction(one) for name in inspect.signature(one).parameters}


def adaptation(adapt: Callable[..., Any], wanted: Adapt) -> dict[str, Any]:
    """What `adapt` of a cluster is called with: how soon workers leave, too, where it takes that."""
    found: dict[str, Any] = {"minimum": wanted.minimum, "maximum": wanted.maximum}
    if any(one.kind is one.VAR_KEYWORD for one in inspect.signature(adapt).parameters.values()):
        looks = max(1, round(parse_duration(wanted.idle) / ADAPT_SECONDS))
        found |= {"interval": f"{ADAPT_SECONDS}s", "wait_count": looks, "target_duration": TASK_SECONDS}
    return found


def _close(part: Any) -> None:
    """Close the cluster or its client. Nothing interrupts this, since jobs would be left behind."""
    with _uninterrupted(), contextlib.suppress(Exception):
        part.close(timeout=CLOSE_SECONDS)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C and SIGTERM, here and in programs that are started inside the block, such as scancel."""
    with _same_signals():
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN)
        yield


@contextlib.contextmanager
def _same_signals() -> Iterator[None]:
    """Handle signals after the block as before it: merely importing dask_jobqueue makes Ctrl-C end Python with 0."""
    if threading.current_thread() is not threading.main_thread():  # no other thread can change them
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
