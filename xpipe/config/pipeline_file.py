"""Pipeline files: YAML and `--set` overrides in, one checked Pipeline out, or every mistake at once with its line.

Holds no parameter of any stage (each stage declares its own) and no wiring of artifacts (`wiring` does that); reading
YAML is `yaml_lines`, the wording of mistakes `mistakes`.

A pipeline file holds choices, not machines: relative paths in it are relative to the current directory, as on the
command line. A section that is named but empty (`emit:`) is on with its defaults; `emit: null` switches it off.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationError, create_model, field_validator, model_validator

from xpipe.config.mistakes import explain, flags, in_words, literals, resolve, sections_of, shown
from xpipe.config.yaml_lines import Draft, file_order
from xpipe.engine.cluster.calls import ClusterParams
from xpipe.errors import ConfigError
from xpipe.stages import STAGES, Params, Stage


class Pipeline(Params):
    """A checked pipeline: what every pipeline has, plus one section a stage (None where the stage is off)."""

    stages: ClassVar[tuple[Stage, ...]] = STAGES  # what its sections are of, in the order of the data

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
        return {"kind": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _fill_folders(self) -> Self:
        out = self.out or f"runs/{self.name}"
        beside = os.path.dirname(out.rstrip("/"))
        if "://" in out and "://" not in beside:  # a bucket has nothing beside it that is ours
            beside = out.rstrip("/")
        store = self.store or os.path.join(beside, ".store")
        if os.path.normpath(store) == os.path.normpath(out):
            raise ValueError(f"`store` must be another folder than `out`, which is {out!r}")
        object.__setattr__(self, "out", out)  # frozen for everybody else
        object.__setattr__(self, "store", store)
        return self


@functools.cache
def pipeline_model(stages: tuple[Stage, ...] = STAGES) -> type[Pipeline]:
    """The Pipeline class with one optional field for the section of every stage."""
    sections: dict[str, Any] = {stage.section: (stage.params | None, None) for stage in stages}
    model = create_model("Pipeline", __base__=Pipeline, **sections)
    model.stages = stages
    return model


def load(path: str | os.PathLike[str], overrides: Sequence[str] = (), stages: tuple[Stage, ...] = STAGES) -> Pipeline:
    """Read and check a pipeline file.

    overrides: texts such as "group.size=10"; the value is YAML, the last one wins, sections are made where missing.
    Raises ConfigError that lists every mistake of file and overrides with its place and close matches.
    """
    model = pipeline_model(stages)
    draft = Draft(sections_of(model))
    draft.read(path)
    for text in overrides:
        draft.override(text)
    for key_path, flag in flags(draft.values):  # pydantic takes true for 1 in a Literal
        kind = resolve(key_path, model)[1]
        allowed = literals(kind)
        if allowed and not any(flag is value for value in allowed):
            draft.mistake(draft.place(key_path), key_path, f"must be {in_words(kind)}, got {shown(flag)}")
    try:
        # JSON mode with strict: `true` is no number and "4" no integer, while lists still fit tuples
        given = {key: value for key, value in draft.values.items() if value is not None}  # null: as if not written
        pipeline = model.model_validate_json(json.dumps(given), strict=True)
    except ValidationError as error:
        explain(error, model, draft)
    if not draft.mistakes:
        return pipeline
    count = f"{len(draft.mistakes)} mistakes" if len(draft.mistakes) > 1 else "a mistake"
    lines = "".join(f"\n  {place}: {text}" for place, text in sorted(draft.mistakes, key=file_order))
    fix = f"correct the above; `xpipe plan {os.fspath(path)}` checks without running"
    raise ConfigError(f"the pipeline {os.fspath(path)} has {count}:{lines}", fix=fix)
