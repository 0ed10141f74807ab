"""Pipeline files: turns YAML and `--set` overrides into a checked Pipeline, or lists every mistake with its line.

Holds no parameter of any stage (each stage declares its own) and no wiring of artifacts (`engine.wiring`). `yaml_lines`
reads the YAML, `mistakes` words the mistakes.

A pipeline file holds choices and no machine paths. Relative paths in it start in the current folder, as on the command
line. A section that is named but empty (`emit:`) is on, with its defaults; `emit: null` switches it off.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, create_model, field_validator, model_validator

from xpipe.config.clusters import look_up, unknown_cluster
from xpipe.config.mistakes import explain, note_wrong_flags, sections_of
from xpipe.config.yaml_lines import Draft, file_order
from xpipe.engine.cluster.calls import ClusterParams
from xpipe.errors import ConfigError
from xpipe.stages import STAGES, Params, Stage

OFF = "none"  # of a section: leaves a usual stage out


class Pipeline(Params):
    """A checked pipeline: what every pipeline has, and one section per stage (None where the stage is off)."""

    stages: ClassVar[tuple[Stage, ...]] = STAGES  # the stages of its sections, in the order of the data

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        max_length=100,
        description="up to 100 letters, digits and . _ - that start with a letter or digit",
    )
    seed: int = Field(default=0, ge=0, le=2**63 - 1)
    cluster: ClusterParams = ClusterParams()
    backend: Literal["auto", "cpu", "gpu"] = "auto"
    out: str = ""  # folder of the results; runs/<name> when not given
    store: str = ""  # folder of the artifacts; .store beside out when not given
    matrix: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}  # key -> values: every combination is run

    @field_validator("cluster", mode="before")
    @classmethod
    def _short_cluster(cls, given: Any) -> Any:
        """Take the short form `cluster: local` for `cluster: {kind: local}`."""
        return {"kind": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _fill_folders(self) -> Self:
        """Fill in the folders that are not given, and refuse a store that is the same folder as `out`."""
        out = self.out or f"runs/{self.name}"
        beside = os.path.dirname(out.rstrip("/"))
        if "://" in out and "://" not in beside:  # what lies beside a bucket is not ours
            beside = out.rstrip("/")
        store = self.store or os.path.join(beside, ".store")
        if os.path.normpath(store) == os.path.normpath(out):
            raise ValueError(f"`store` must be another folder than `out`, which is {out!r}")
        object.__setattr__(self, "out", out)  # frozen for everybody else
        object.__setattr__(self, "store", store)
        return self

    def to_json(self) -> dict[str, Any]:
        """All settings that are not null, as plain JSON values; `none` for usual stages that are off."""
        off = {stage.section: OFF for stage in self.stages if stage.usual and getattr(self, stage.section) is None}
        return self.model_dump(mode="json", exclude_none=True) | off


def _switched_off(given: Any) -> Any:
    """`none` switches a usual stage off."""
    return None if given == OFF else given


@functools.cache
def pipeline_model(stages: tuple[Stage, ...] = STAGES) -> type[Pipeline]:
    """The Pipeline class with one optional field for the section of every stage."""
    sections: dict[str, Any] = {
        stage.section: (
            (Annotated[stage.params | None, BeforeValidator(_switched_off)], stage.params())
            if stage.usual
            else (stage.params | None, None)
        )
        for stage in stages
    }
    model = create_model("Pipeline", __base__=Pipeline, **sections)
    model.stages = stages
    return model


def load(path: str | os.PathLike[str], overrides: Sequence[str] = (), stages: tuple[Stage, ...] = STAGES) -> Pipeline:
    """Read and check a pipeline file.

    Parameters
    ----------
    path : str or path
        The pipeline file.
    overrides : sequence of str
        Settings such as "group.size=10" that replace values of the file. The value is YAML. The last one wins, and
        sections are made where they are missing.
    stages : tuple of Stage
        The stages whose sections the file may have.

    Returns
    -------
    Pipeline
        The checked pipeline.

    Raises
    ------
    ConfigError
        If anything is wrong. It lists every mistake of the file and the overrides, with its place and close matches.

    Examples
    --------
    >>> from pathlib import Path
    >>> from xpipe import config
    >>> _ = Path("first.yaml").write_text("name: first\\ndata: {dir: data/tiny}")
    >>> pipeline = config.load("first.yaml", ["seed=3"])
    >>> pipeline.name, pipeline.seed, pipeline.data.dir
    ('first', 3, 'data/tiny')
    """
    model = pipeline_model(stages)
    draft = Draft(sections_of(model))
    draft.read(path)
    for text in overrides:
        draft.override(text)
    note_wrong_flags(draft, model)
    pipeline = _checked(draft, model)
    _note_unknown_cluster(draft)
    if pipeline is None or draft.mistakes:
        raise _all_mistakes(draft, os.fspath(path))
    return pipeline.model_copy(update={"cluster": look_up(pipeline.cluster)})


def _note_unknown_cluster(draft: Draft) -> None:
    """Note a cluster that is none of the kinds, no address and no name of the user's clusters.yaml."""
    section = draft.values.get("cluster")
    kind = section.get("kind") if isinstance(section, dict) else section
    path = ("cluster", "kind")
    if isinstance(kind, str) and path not in draft.told and (text := unknown_cluster(kind)):
        draft.mistake(draft.place(path), path, text)


def _checked(draft: Draft, model: type[Pipeline]) -> Pipeline | None:
    """The values of a draft as a pipeline. Where pydantic finds mistakes, they are noted in the draft: then None."""
    usual = {stage.section for stage in model.stages if stage.usual}  # null switches these off
    given = {key: value for key, value in draft.values.items() if value is not None or key in usual}
    try:
        # JSON mode with strict: `true` is no number and "4" no integer, while lists still fit tuples
        return model.model_validate_json(json.dumps(given), strict=True)
    except ValidationError as error:
        explain(error, model, draft)
        return None


def _all_mistakes(draft: Draft, path: str) -> ConfigError:
    """The error that lists all mistakes of a draft, in the order of the file."""
    count = f"{len(draft.mistakes)} mistakes" if len(draft.mistakes) > 1 else "a mistake"
    lines = "".join(f"\n  {place}: {text}" for place, text in sorted(draft.mistakes, key=file_order))
    fix = f"correct the above; `xpipe plan {path}` checks without running"
    return ConfigError(f"the pipeline {path} has {count}:{lines}", fix=fix)
