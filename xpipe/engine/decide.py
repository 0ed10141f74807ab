"""What a run would do: each step's key, whether it is in the store, and why not. Runs no stage and writes no output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xpipe.engine import places
from xpipe.engine.manifest import MANIFEST, STORE_FORMAT, Artifact, Manifest, content_key
from xpipe.engine.paths import absolute
from xpipe.engine.pipeline import Pipeline
from xpipe.engine.receipts import count_receipts
from xpipe.engine.results import last_ingredients, last_pipeline
from xpipe.engine.sources import Source, Watched
from xpipe.engine.stage import Estimate
from xpipe.engine.store import Store
from xpipe.engine.wiring import Step, raise_all, wire
from xpipe.errors import DataError, XpipeError
from xpipe.ground import files
from xpipe.ground.backend import Backend, choose

MOST_CHANGES = 4  # changes of a stage that `why` names
SAME_OUTPUT = ("backend", "cluster", "out", "store")  # settings that are not what a run is about


@dataclass
class Decision:
    """What will happen to a step, and why. A step is cached, with its manifest, or it is to do.

    ingredients, key, inputs: known once the steps before it are finished. sources: the files from outside the store, as
    they were digested.
    """

    step: Step
    why: str
    ingredients: dict[str, Any] | None = None
    key: str | None = None
    inputs: dict[str, Artifact] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    manifest: Manifest | None = None
    estimate: Estimate = field(default_factory=Estimate)

    @property
    def cached(self) -> bool:
        """Whether the step is in the store."""
        return self.manifest is not None


def decide(
    step: Step,
    made: Mapping[str, Manifest],
    artifacts: Store,
    seed: int,
    last: Mapping[str, dict[str, Any]],
    backend: Backend,
) -> Decision:
    """Decide whether a step is in the store already.

    made: the manifests of the finished steps before it. last: what each stage of the run before was made of.
    backend: the backend that would run it.
    """
    waiting = sorted({writer for writer in step.takes.values() if writer not in made})
    if waiting:
        return Decision(step, f"{' and '.join(waiting)} must run first")
    inputs = {name: _artifact(made[writer], name) for name, writer in step.takes.items()}
    watched = Watched(artifacts)
    ingredients = _ingredients(step, inputs, watched, seed, backend)
    key = content_key(ingredients)
    estimate = step.stage.estimate(step.params, inputs)
    decision = Decision(step, "", ingredients, key, inputs, watched.sources, estimate=estimate)
    found = artifacts.find(step.stage.name, key)
    if found is None:
        decision.why = _why_to_do(step.stage.name, artifacts.folder(step.stage.name, key), ingredients, last)
    elif damage := artifacts.damage(found):
        decision.why = f"damaged: {damage}"
    else:
        decision.manifest, decision.why = found, "same data, parameters and version"
    return decision


def _ingredients(
    step: Step, inputs: dict[str, Artifact], watched: Watched, seed: int, backend: Backend
) -> dict[str, Any]:
    """Everything that the output of a step depends on. The content key is made of it."""
    ingredients: dict[str, Any] = {
        "stage": step.stage.name,
        "version": step.stage.version,
        "format": STORE_FORMAT,
        "params": step.stage.identity(step.params, inputs, watched),
        "inputs": {name: artifact.digest for name, artifact in inputs.items()},
    }
    if step.stage.is_seeded(step.params):
        ingredients["seed"] = seed
    if step.stage.uses_backend(step.params):
        ingredients["backend"] = backend.name
    if step.stage.libraries:
        ingredients["libraries"] = step.stage.releases()
    return ingredients


def _why_to_do(stage: str, folder: str, ingredients: dict[str, Any], last: Mapping[str, dict[str, Any]]) -> str:
    """Why a stage is not in the store: it was interrupted, something changed, or it is new."""
    done = count_receipts(folder)
    if done is not None:
        return f"interrupted: {done} units are done"
    if stage in last:
        return "changed: " + "; ".join(differences(last[stage], ingredients)[:MOST_CHANGES])
    return "not run yet"


def replaced(pipeline: Pipeline) -> str | None:
    """What a run will replace: results of other settings in its folder. None where there are none."""
    last = last_pipeline(pipeline.out)
    if last is None:
        return None
    now = pipeline.to_json()
    changes = differences(
        {key: value for key, value in last.items() if key not in SAME_OUTPUT},
        {key: value for key, value in now.items() if key not in SAME_OUTPUT},
    )
    if not changes:
        return None
    more = f" and {len(changes) - MOST_CHANGES} more" if len(changes) > MOST_CHANGES else ""
    told = f"{'; '.join(changes[:MOST_CHANGES])}{more}"
    return f"the results in {pipeline.out} will be replaced ({told}); to keep them: --set out={pipeline.out}-2"


def _artifact(manifest: Manifest, name: str) -> Artifact:
    """An artifact of a finished stage. Raises DataError where its manifest does not have it."""
    if name not in manifest.artifacts:
        raise DataError(
            f"the stored stage {manifest.stage} has no {name}",
            where=files.join(manifest.folder, MANIFEST),
            fix=f"remove {manifest.folder}, then give the same command again",
        )
    return manifest.artifacts[name]


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """What changed between two trees of ingredients, as `path: old -> new`; for a digest, `path has other content`."""
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


def check(pipeline: Pipeline) -> list[Step]:
    """Check a pipeline before anything is made.

    Parameters
    ----------
    pipeline : Pipeline
        A checked pipeline, as `xpipe.config.load` returns it.

    Returns
    -------
    list of Step
        The stages that are on, in the order of the data, each with the stages that it takes its artifacts from.

    Raises
    ------
    ConfigError, DataError
        If anything is bound to fail. One error lists all problems.

    Examples
    --------
    >>> from pathlib import Path
    >>> from xpipe import config, engine
    >>> _ = Path("check.yaml").write_text("{name: check, data: {name: tiny, if_missing: synthesize}}")
    >>> [(step.stage.name, step.takes) for step in engine.check(config.load("check.yaml"))]
    [('synth', {}), ('read', {'source': 'synth'}), ('report', {'features': 'read', ...})]
    """
    problems: list[XpipeError] = [
        problem
        for name, folder in (("out", pipeline.out), ("store", pipeline.store))
        if (problem := places.folder_problem(f"`{name}`", folder)) is not None
    ]
    outputs = tuple(name for stage in pipeline.stages for name in stage.outputs)
    problems += places.relation_problems(pipeline.out, pipeline.store, _input_folders(pipeline), outputs)
    steps = []
    try:
        steps = wire(pipeline)
    except XpipeError as error:
        problems.append(error)
    raise_all(problems, f"pipeline {pipeline.name!r} cannot run")
    return steps


def _input_folders(pipeline: Pipeline) -> dict[str, str]:
    """The user's folders that the stages of a pipeline read, by the names of the settings."""
    found: dict[str, str] = {}
    for stage in pipeline.stages:
        params = getattr(pipeline, stage.section)
        if params is not None:
            found |= stage.input_folders(params)
    return found


def plan(pipeline: Pipeline, backend: Backend | None = None) -> list[Decision]:
    """Decide what `run` would do, without doing it.

    Parameters
    ----------
    pipeline : Pipeline
        A checked pipeline, as `xpipe.config.load` returns it.
    backend : Backend, optional
        The backend that would run it. By default the one that the pipeline asks for.

    Returns
    -------
    list of Decision
        One decision per step, in the order of the data.

    Raises
    ------
    ConfigError
        If the pipeline is bound to fail.
    BackendError
        If the pipeline asks for a GPU that cannot be used. Keys, and so what is cached, depend on the backend.

    Examples
    --------
    >>> from pathlib import Path
    >>> from xpipe import config, engine
    >>> _ = Path("plan.yaml").write_text("{name: plan, backend: cpu, data: {name: tiny, if_missing: synthesize}}")
    >>> for decision in engine.plan(config.load("plan.yaml", ["out=planned/run"])):
    ...     print(decision.step.stage.name, "-", decision.why)
    synth - not run yet
    read - synth must run first
    report - read must run first
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
