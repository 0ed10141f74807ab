"""Three small stages with sections of every kind, so that new options of the real stages change no test of files."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import Field, field_validator, model_validator

from xpipe.config.pipeline_file import load
from xpipe.errors import ConfigError
from xpipe.stages import Params, Stage


class DataParams(Params):
    name: str | None = None
    dir: str | None = None
    if_missing: Literal["error", "synthesize"] = "error"
    base: Literal[0, 1] = 0
    rate: float = Field(default=0.5, gt=0, lt=1)
    shuffle: bool = False


class GroupParams(Params):
    rule: Literal["random", "given"]
    size: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _size(self):
        if self.rule == "random" and self.size is None:
            raise ValueError("rule random needs `size`, for example size: 4")
        return self


class EmitParams(Params):
    formats: list[Literal["parquet", "xmc"]] = Field(default=["parquet"])
    cuts: tuple[Annotated[int, Field(ge=1)], ...] = (1, 5)
    note: str | int = ""
    extra: dict[str, int] = Field(default={})
    order: str = "id"

    @field_validator("order")
    @classmethod
    def _order(cls, order: str) -> str:
        if order not in ("id", "frequency"):
            raise ValueError("must be id or frequency")
        return order


def _stage(name: str, section: str, params: type[Params]) -> Stage:
    return Stage(name=name, section=section, version=1, reads=(), writes=(), params=params, run=lambda context: None)


STAGES = (_stage("read", "data", DataParams), _stage("group", "group", GroupParams), _stage("emit", "emit", EmitParams))


def mistakes(path: str, *overrides: str) -> list[str]:
    """The listed lines of the error that loading gives."""
    with pytest.raises(ConfigError) as caught:
        load(path, overrides, STAGES)
    assert caught.value.exit_code == 2
    return [line.strip() for line in caught.value.what.splitlines()[1:]]


def failure(path: str) -> ConfigError:
    """The error of a file that is no mapping of YAML at all."""
    with pytest.raises(ConfigError) as caught:
        load(path, (), STAGES)
    return caught.value
