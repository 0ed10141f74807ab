"""Which stages a pipeline has, and from which stage each takes its artifacts. Checked before anything runs.

Runs nothing and reads no artifact.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xpipe.engine.pipeline import Pipeline
from xpipe.engine.stage import Outlook, Stage
from xpipe.errors import ConfigError, XpipeError


@dataclass(frozen=True)
class Step:
    """A stage that is on in a pipeline: its params, what it takes, and what it gives.

    takes: for each artifact that it reads, the stage that writes it. gives: the artifacts that it writes.
    """

    stage: Stage
    params: Any
    takes: dict[str, str]
    gives: tuple[str, ...]


def wire(pipeline: Pipeline, stages: Sequence[Stage] | None = None) -> list[Step]:
    """The steps of a pipeline in the order of the data. stages: by default those that its file was checked with.

    Raises one error with all problems: artifacts that no stage writes, and stages that are bound to fail.
    """
    stages = pipeline.stages if stages is None else stages
    steps: list[Step] = []
    writer: dict[str, str] = {}  # the latest stage that writes an artifact
    problems: list[str] = []
    foreseen: list[XpipeError] = []
    outlook = Outlook({stage.section: getattr(pipeline, stage.section) for stage in stages})
    for stage in stages:
        params = getattr(pipeline, stage.section)
        if params is None or not stage.enabled(params):
            continue
        if stage.foresee:
            outlook = stage.foresee(params, outlook)
        foreseen += [*_missing_packages(stage), *stage.preflight(params, outlook)]
        wanted = stage.needs(params) if stage.needs else stage.reads
        takes, missing = _sources_of(wanted, writer)
        if stage.usual and missing:
            continue
        problems += [_missing(stage, artifact, writer, stages) for artifact in missing]
        gives = stage.provides(params) if stage.provides else stage.writes
        writer.update(dict.fromkeys(gives, stage.name))
        steps.append(Step(stage, params, takes, gives))
    if not steps:
        problems.append("it has no stage: add at least a `data` section")
    if problems:
        foreseen.insert(0, ConfigError(f"pipeline {pipeline.name!r} cannot be wired", why="; ".join(problems)))
    raise_all(foreseen, f"pipeline {pipeline.name!r} cannot run")
    return steps


def _sources_of(wanted: Iterable[str], writer: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """Which stage writes each artifact that a stage wants; and those that nobody writes, unless they may be absent."""
    takes: dict[str, str] = {}
    missing = []
    for each in wanted:
        found = _first_available(each.removesuffix("?"), writer)
        if found is None and not each.endswith("?"):
            missing.append(each)
        takes.update({name: writer[name] for name in found or ()})
    return takes, missing


def raise_all(problems: Sequence[XpipeError], what: str) -> None:
    """Raise a single problem as it is, and several as one error with the exit code of the first."""
    if len(problems) == 1:
        raise problems[0]
    if problems:
        listed = "".join("\n  - " + str(problem).replace("\n", "\n  ") for problem in problems)
        raise type(problems[0])(f"{what}: {len(problems)} problems{listed}")


def _missing_packages(stage: Stage) -> list[XpipeError]:
    """The problem of a stage whose packages are not installed."""
    missing = [name for name in stage.packages if importlib.util.find_spec(name) is None]
    if not missing:
        return []
    what, fix = f"stage {stage.name} needs {' and '.join(missing)}", f"pip install 'xpipe[{stage.extra}]'"
    return [ConfigError(what, why="not installed here", fix=fix)]


def _first_available(wanted: str, writer: dict[str, str]) -> tuple[str, ...] | None:
    """The artifacts of the first alternative of "a|b+c" that earlier stages write; None where they write none."""
    for alternative in wanted.split("|"):
        names = tuple(alternative.split("+"))
        if all(name in writer for name in names):
            return names
    return None


def _missing(stage: Stage, wanted: str, writer: dict[str, str], stages: Sequence[Stage]) -> str:
    """What to say of an artifact that no earlier stage writes, and which sections would write it."""
    names = wanted.replace("|", " or ").replace("+", " and ")
    could = sorted({s.section for s in stages for name in wanted.replace("|", "+").split("+") if name in s.writes})
    have = ", ".join(sorted(writer)) or "nothing"
    hint = f"; sections that can give it: {', '.join(could)}" if could else ""
    hint += f"; {stage.instead}" if stage.instead else ""
    return f"stage {stage.name} reads {names}, but the stages before it give {have}{hint}"
