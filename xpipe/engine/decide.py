"""What a run would do: each step's key, whether it is in the store, and why not. Makes nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from xpipe.engine import places, store
from xpipe.engine.results import last_ingredients
from xpipe.engine.sources import Source, Watched
from xpipe.engine.stage import Estimate
from xpipe.engine.store import Manifest, Store
from xpipe.engine.wiring import Step, raise_all, wire
from xpipe.errors import DataError, XpipeError
from xpipe.ground import files
from xpipe.ground.backend import choose

OUTPUTS = ("tree", "heads", "xmc", "npz", "svmlight", "models", "verification")  # folders that a run replaces


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


def absolute(path: str) -> str:
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
    folder = absolute(pipeline.store)
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
