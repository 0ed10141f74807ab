"""Runs the stages of a pipeline: decides what is cached and why not, hands units to the cluster, publishes, reports.

Holds no arithmetic and no format: stages do the work, the store keeps it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from xpipe.engine import places, registry, store
from xpipe.engine.cluster import Call, Cluster, Outcome, connect
from xpipe.engine.export import close_journal, export, written
from xpipe.engine.locks import RunLock, StoreLock, sole_builder
from xpipe.engine.results import RESULTS, last_ingredients
from xpipe.engine.sources import Source, Watched, changed
from xpipe.engine.stage import Estimate, Produced
from xpipe.engine.store import Manifest, Store
from xpipe.engine.wiring import Step, raise_all, wire
from xpipe.errors import DataError, StageError, XpipeError
from xpipe.ground import files, machine
from xpipe.ground.backend import choose
from xpipe.ground.checked_json import dump_json
from xpipe.ground.library_threads import while_executing
from xpipe.ground.quantities import parse_bytes

OUTPUTS = ("tree", "heads", "xmc", "npz", "svmlight", "models", "verification")  # folders that a run replaces
TASKS_A_WORKER = 4  # enough that workers finish together, few enough that a task is worth its overhead


@dataclass
class Decision:
    """What will happen to a step: its key and inputs when known, `cached` with its manifest, or to do, and why."""

    step: Step
    why: str
    ingredients: dict | None = None
    key: str | None = None
    inputs: dict = field(default_factory=dict)
    sources: tuple[Source, ...] = ()  # files from outside the store, as they were digested
    manifest: Manifest | None = None
    estimate: Estimate = field(default_factory=Estimate)

    @property
    def cached(self) -> bool:
        return self.manifest is not None


def decide(
    step: Step, made: dict[str, Manifest], artifacts: Store, seed: int, last: dict[str, dict], backend: Any
) -> Decision:
    """Is this step in the store already? `made` holds the finished steps before it; `backend` is what would run it."""
    waiting = sorted({writer for writer in step.takes.values() if writer not in made})
    if waiting:
        return Decision(step, f"{' and '.join(waiting)} must run first")
    inputs = {name: _artifact(made[writer], name) for name, writer in step.takes.items()}
    watched = Watched(artifacts)
    ingredients = {
        "stage": step.stage.name,
        "version": step.stage.version,
        "format": store.STORE_FORMAT,
        "params": step.stage.identity(step.params, inputs, watched),
        "inputs": {name: artifact.digest for name, artifact in inputs.items()},
    }
    if step.stage.seeded:
        ingredients["seed"] = seed
    if step.stage.uses_backend(step.params):
        ingredients["backend"] = backend.name
    if step.stage.libraries:
        ingredients["libraries"] = step.stage.releases()
    key = store.content_key(ingredients)
    estimate = step.stage.estimate(step.params, inputs)
    decision = Decision(step, "", ingredients, key, inputs, watched.sources, estimate=estimate)
    manifest = artifacts.find(step.stage.name, key)
    if manifest is not None:
        damage = artifacts.damage(manifest)
        if not damage:
            decision.manifest, decision.why = manifest, "same data, parameters and version"
        else:
            decision.why = f"damaged: {damage}"
        return decision
    receipts = files.join(artifacts.folder(step.stage.name, key), store.RECEIPTS)
    if files.is_folder(receipts):
        done = sum(name.endswith(".json") for name in files.walk(receipts))
        decision.why = f"interrupted: {done} units are done"
    elif step.stage.name in last:
        decision.why = "changed: " + "; ".join(differences(last[step.stage.name], ingredients)[:4])
    else:
        decision.why = "not run yet"
    return decision


def _artifact(manifest: Manifest, name: str) -> store.Artifact:
    """An artifact of a finished stage. Raises DataError where its manifest does not have it."""
    if name not in manifest.artifacts:
        raise DataError(
            f"the stored stage {manifest.stage} has no {name}",
            where=files.join(manifest.folder, store.MANIFEST),
            fix=f"remove {manifest.folder}, then give the same command again",
        )
    return manifest.artifacts[name]


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """What changed between two ingredient trees, as `path: old -> new`; digests as `path: other content`."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for name in sorted({*old, *new}):
            found += differences(old.get(name), new.get(name), f"{path}.{name}" if path else name)
        return found
    if old == new:
        return []
    name = path.removeprefix("params.").removeprefix("inputs.")
    if path.startswith("inputs.") or "digest" in path or "sha256" in path:
        return [f"{name} has other content"]
    return [f"{name}: {old} -> {new}"]


def _absolute(path: str) -> str:
    path = files.local(path)
    return os.path.abspath(path) if files.is_local(path) else path


def check(pipeline: Any) -> list[Step]:
    """The steps of a pipeline; everything that is bound to fail is told here, before anything is made."""
    problems: list[XpipeError] = [
        problem
        for name in ("out", "store")
        if (problem := places.folder_problem(f"`{name}`", getattr(pipeline, name))) is not None
    ]
    data = pipeline.data.dir if pipeline.data else None
    problems += places.relation_problems(pipeline.out, pipeline.store, data, OUTPUTS)
    steps = []
    try:
        steps = wire(pipeline)
    except XpipeError as error:
        problems.append(error)
    raise_all(problems, f"pipeline {pipeline.name!r} cannot run")
    return steps


def plan(pipeline: Any, backend: Any = None) -> list[Decision]:
    """What `run` would do, without doing anything. backend: of `backend.choose`, by default the pipeline's choice.

    Raises BackendError where a GPU is asked for that cannot be used: keys, hence what is cached, depend on it.
    """
    steps = check(pipeline)
    backend = backend or choose(pipeline.backend)
    folder = _absolute(pipeline.store)
    artifacts = Store(folder, remembers=files.is_folder(folder))
    last = last_ingredients(pipeline.out)
    made: dict[str, Manifest] = {}
    decisions = []
    for step in steps:
        decision = decide(step, made, artifacts, pipeline.seed, last, backend)
        if decision.manifest is not None:
            made[step.stage.name] = decision.manifest
        decisions.append(decision)
    return decisions


@dataclass
class StageContext:
    """What a stage sees while it runs; see `stages.stage.Context`."""

    stage: str
    params: Any
    seed: int
    inputs: dict
    folder: str
    cluster: Cluster
    cluster_params: Any
    bar: Any
    warn: Callable[[str], None]
    note: Callable[[str], None]
    backend: Any
    sources: tuple[Source, ...] = ()
    peak_bytes: int = 0
    resumed: int = 0

    def map(
        self,
        step: str,
        function: Callable[[str, list[dict], dict], Iterator],
        units: Sequence[dict],
        shared: dict | None = None,
        bytes_per_row: float = 0,
        apart: bool = False,
    ) -> list[dict]:
        done = store.read_receipts(self.folder, step, self.sources)
        pending = [unit for unit in units if unit["unit"] not in done]
        self.bar.expect(sum(unit["rows"] for unit in units))
        if len(pending) < len(units):
            self.resumed += len(units) - len(pending)
            self.bar.advance(sum(unit["rows"] for unit in units if unit["unit"] in done))
        calls = [
            Call(
                f"stage {self.stage}, {step} {describe_range(chunk)}",
                function,
                self.folder,
                step,
                chunk,
                shared or {},
                self.sources,
            )
            for chunk in ([[unit] for unit in pending] if apart else self._chunks(pending, bytes_per_row))
        ]

        def on_done(call: Call, outcome: Outcome) -> None:
            done.update(outcome.receipts)
            self.peak_bytes = max(self.peak_bytes, outcome.peak_bytes)
            self.bar.advance(sum(unit["rows"] for unit in call.units))

        if calls:
            self.cluster.run(calls, on_done)
        missing = [unit["unit"] for unit in units if unit["unit"] not in done]
        if missing:
            raise StageError(f"stage {self.stage} left {len(missing)} units undone", where=f"{step} {missing[0]}")
        return [done[unit["unit"]] for unit in units]

    def _chunks(self, units: list[dict], bytes_per_row: float) -> Iterator[list[dict]]:
        """Consecutive units of about `chunk_rows` rows together; how they are cut changes no byte of the output."""
        rows = sum(unit["rows"] for unit in units)
        limit = self.cluster_params.chunk_rows or max(1, rows // (TASKS_A_WORKER * self.cluster.workers))
        if bytes_per_row:
            limit = max(1, min(limit, int(parse_bytes(self.cluster_params.memory_limit) / 8 / bytes_per_row)))
        chunk: list[dict] = []
        for unit in units:
            if chunk and sum(member["rows"] for member in chunk) + unit["rows"] > limit:
                yield chunk
                chunk = []
            chunk.append(unit)
        if chunk:
            yield chunk


def describe_range(units: list[dict]) -> str:
    first, last = units[0]["unit"], units[-1]["unit"]
    return first if first == last else f"{first} to {last}"


def run(pipeline: Any, progress: Any, backend: Any) -> dict:
    """Run a pipeline to its end; gives (and writes) results.json. The same call goes on where a stopped one was.

    Meanwhile the process's numerical libraries have one thread each; afterwards as many as before.
    """
    started = time.monotonic()
    steps = check(pipeline)
    out = _absolute(pipeline.out)
    artifacts = Store(_absolute(pipeline.store))
    for folder in (out, artifacts.path):
        places.try_folder(folder)
    with (
        while_executing(),
        RunLock(out) as lock,
        StoreLock(artifacts.path, note=progress.note),
        contextlib.closing(connect(pipeline.cluster, progress)) as cluster,
    ):
        registry.register(artifacts.path, out)
        if lock.left_behind:
            progress.note(
                f"the run before (process {lock.left_behind.get('pid')}) did not finish; going on where it stopped"
            )
        for folder in (out, artifacts.path, registry.folder_of(artifacts.path)):  # stages clear their own folders
            for name in filter(files.is_abandoned, files.listing(folder)):
                files.remove(files.join(folder, name))
        last = last_ingredients(out)
        made: dict[str, Manifest] = {}
        rows = []
        for step in steps:
            decision = decide(step, made, artifacts, pipeline.seed, last, backend)
            if decision.why.startswith("damaged"):
                progress.warn(f"stage {step.stage.name} is {decision.why}; building it again")
            record = _perform(step, decision, _Run(pipeline, artifacts, cluster, progress, backend))
            made[step.stage.name] = decision.manifest  # type: ignore[assignment]  # set by _perform
            rows.append(record)
        exports = [
            made[step.stage.name].artifacts[name]
            for step in steps
            for name in step.stage.exports
            if name in made[step.stage.name].artifacts
        ]
        outputs = export(exports, out, progress.warn)
        results = {
            "name": pipeline.name,
            "synthetic": any(manifest.summary.get("synthetic", False) for manifest in made.values()),
            "seed": pipeline.seed,
            "pipeline": pipeline.model_dump(mode="json", exclude_none=True),
            "stages": rows,
            "outputs": outputs,
            "written": written(exports),
            "out": out,
            "store": artifacts.path,
            "backend": backend.summary(),
            "cluster": cluster.describe(),
            "versions": versions(),
            "seconds": round(time.monotonic() - started, 3),
            "peak_memory_main": machine.peak_bytes(),
        }
        files.write_bytes(files.join(out, RESULTS), dump_json(results))
        close_journal(out)
        registry.register(artifacts.path, out, [f"{row['stage']}-{row['key']}" for row in rows])
    return results


@dataclass(frozen=True)
class _Run:
    """What every stage of one run shares."""

    pipeline: Any
    artifacts: Store
    cluster: Cluster
    progress: Any
    backend: Any


def _perform(step: Step, decision: Decision, run: _Run) -> dict:
    """Make sure the step's manifest exists (in decision.manifest); gives its entry for results.json."""
    started = time.monotonic()
    name, artifacts = step.stage.name, run.artifacts
    record: dict = {"stage": name, "key": decision.key, "status": "cached", "why": decision.why}
    if decision.manifest is None:
        assert decision.key is not None  # every step before it is made
        with sole_builder(artifacts.folder(name, decision.key), run.progress.note):
            built = artifacts.find(name, decision.key)  # by another run, while we waited?
            if built is not None and not artifacts.damage(built):
                decision.manifest = built
            else:
                record |= _build(step, decision, run)
    else:
        artifacts.tidy(decision.manifest)
    assert decision.manifest is not None
    record["seconds"] = round(time.monotonic() - started, 3)
    record["ingredients"] = decision.manifest.ingredients
    record["summary"] = decision.manifest.summary
    record["digests"] = {artifact: a.digest for artifact, a in decision.manifest.artifacts.items()}
    return record


def _build(step: Step, decision: Decision, run: _Run) -> dict:
    """Run a stage and publish what it made; gives how it went."""
    name, key, ingredients = step.stage.name, decision.key, decision.ingredients
    artifacts, pipeline, progress = run.artifacts, run.pipeline, run.progress
    assert key is not None
    assert ingredients is not None
    folder = artifacts.begin(name, key)
    bar = progress.stage(name, unit=step.stage.counts)
    context = StageContext(
        name,
        step.params,
        pipeline.seed,
        decision.inputs,
        folder,
        run.cluster,
        pipeline.cluster,
        bar,
        progress.warn,
        progress.note,
        run.backend,
        decision.sources,
    )
    if pipeline.cluster.kind == "local":
        began = time.monotonic()
        step.stage.compile()
        if time.monotonic() - began > 2:
            progress.note(f"{name}: compiled its kernels in {time.monotonic() - began:.0f} s, once for this machine")
    machine.reset_peak()
    try:
        produced = _produce(step, context, progress)
    except (DataError, OSError):
        _look_again(step, decision, run)  # a file that changed explains better what was found in it
        raise
    _look_again(step, decision, run)
    decision.manifest = artifacts.publish(name, key, ingredients, produced.artifacts, produced.summary)
    bar.done()
    status = "resumed" if context.resumed else "ran"
    return {"status": status, "peak_memory": context.peak_bytes or machine.peak_bytes()}


def _produce(step: Step, context: StageContext, progress: Any) -> Produced:
    """Run a stage; from the beginning where what an earlier run left is not what this stage leaves."""
    try:
        return step.stage.run(context)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        if not context.resumed:
            raise
        progress.warn(f"stage {context.stage}: what a stopped run left cannot be used ({error!r}); beginning anew")
    files.remove(files.join(context.folder, store.RECEIPTS))
    context.resumed = 0
    return step.stage.run(context)


def _look_again(step: Step, decision: Decision, run: _Run) -> None:
    """Raises DataError where files from outside the store are no longer those whose digests are in the key.

    Units looked before and after they read; this covers what was read here, files that came or went, and files that
    were too young for their stamps to be believed.
    """
    assert decision.ingredients is not None
    if not decision.sources:
        return
    watched = Watched(run.artifacts)
    again = step.stage.identity(step.params, decision.inputs, watched)
    if again == decision.ingredients["params"]:
        return
    assert decision.key is not None
    files.remove(files.join(run.artifacts.folder(step.stage.name, decision.key), store.RECEIPTS))
    now = {source.path: source.sha256 for source in watched.sources}
    other = [source.path for source in decision.sources if now.get(source.path) != source.sha256]
    raise changed(other[0] if other else files.parent(decision.sources[0].path))


def versions() -> dict[str, str]:
    import platform
    from importlib import metadata

    from xpipe import __version__

    names = ("numpy", "scipy", "numba", "pyarrow", "dask", "distributed")
    return {"xpipe": __version__, "python": platform.python_version()} | {
        name: metadata.version(name) for name in names
    }
