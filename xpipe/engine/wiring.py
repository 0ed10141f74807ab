"""Which stages a pipeline has and which artifact each takes from which; checked before anything runs.

Runs nothing and reads no artifact.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xpipe.engine.stage import Outlook, Stage
from xpipe.errors import ConfigError, XpipeError


@dataclass(frozen=True)
class Step:
    """A stage that is on in this pipeline: its params, and what it takes, as {artifact: stage that writes it}."""

    stage: Stage
    params: Any
    takes: dict[str, str]
    gives: tuple[str, ...]


def wire(pipeline: Any, stages: Sequence[Stage] | None = None) -> list[Step]:
    """The steps of a pipeline in the order of the data. stages: by default those that its file was checked with.

    Raises ConfigError where an artifact has no source, or where a stage is bound to fail: all of that at once.
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
        takes: dict[str, str] = {}
        for wanted in stage.needs(params) if stage.needs else stage.reads:
            found = _first_available(wanted.removesuffix("?"), writer)
            if found is None and not wanted.endswith("?"):
                problems.append(_missing(stage, wanted, writer, stages))
            takes.update({name: writer[name] for name in found or ()})
        gives = stage.provides(params) if stage.provides else stage.writes
        writer.update(dict.fromkeys(gives, stage.name))
        steps.append(Step(stage, params, takes, gives))
    if not steps:
        problems.append("it has no stage: add at least a `data` section")
    if problems:
        foreseen.insert(0, ConfigError(f"pipeline {pipeline.name!r} cannot be wired", why="; ".join(problems)))
    raise_all(foreseen, f"pipeline {pipeline.name!r} cannot run")
    return steps


def raise_all(problems: Sequence[XpipeError], what: str) -> None:
    """Raise one problem as it is, several as one error with the exit code of the first; nothing where there is none."""
    if len(problems) == 1:
        raise problems[0]
    if problems:
        listed = "".join("\n  - " + str(problem).replace("\n", "\n  ") for problem in problems)
        raise type(problems[0])(f"{what}: {len(problems)} problems{listed}")


def _missing_packages(stage: Stage) -> list[XpipeError]:
    missing = [name for name in stage.packages if importlib.util.find_spec(name) is None]
    if not missing:
        return []
    what, fix = f"stage {stage.name} needs {' and '.join(missing)}", f"pip install 'xpipe[{stage.extra}]'"
    return [ConfigError(what, why="not installed here", fix=fix)]


def _first_available(wanted: str, writer: dict[str, str]) -> tuple[str, ...] | None:
    for alternative in wanted.split("|"):
        names = tuple(alternative.split("+"))
        if all(name in writer for name in names):
            return names
    return None


def _missing(stage: Stage, wanted: str, writer: dict[str, str], stages: Sequence[Stage]) -> str:
    names = wanted.replace("|", " or ").replace("+", " and ")
    could = sorted({s.section for s in stages for name in wanted.replace("|", "+").split("+") if name in s.writes})
    have = ", ".join(sorted(writer)) or "nothing"
    hint = f"; sections that can give it: {', '.join(could)}" if could else ""
    hint += f"; {stage.instead}" if stage.instead else ""
    return f"stage {stage.name} reads {names}, but the stages before it give {have}{hint}"
