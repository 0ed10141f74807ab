"""What a reproduction is: its YAML file, read and checked. Runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from xpipe.errors import ConfigError
from xpipe.ground.close_match import did_you_mean

FOLDER = Path(__file__).parent
SEVERAL = "sets"  # data: a folder of any name with several datasets


class Expected(BaseModel):
    """One figure: the interval that ours must lie in, and what was published (None: only a picture, or nothing).

    low, high: None where there is no such end; one of them is there. speed: a ratio of times, which holds where nothing
    else runs. Tests do not look at it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    figure: str
    low: float | None = None
    high: float | None = None
    published: float | None = None
    speed: bool = False

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low is None and self.high is None:
            raise ValueError("`low` or `high` must be there")
        if self.low is not None and self.high is not None and not self.low <= self.high:
            raise ValueError("`low` must not be above `high`")
        return self

    def holds(self, got: float) -> bool:
        """Whether a figure lies in the interval."""
        return (self.low is None or self.low <= got) and (self.high is None or got <= self.high)


class Configuration(BaseModel):
    """The file NAME.yaml.

    measure: the module below reproductions/measures. seconds: about how long it takes on two idle cores. published:
    what the source says, in words. ours: how this differs from the source. data: what `--data` must be (`sets`: a
    folder with several datasets, which `ours` names); None: none is needed. in_tests: options that the tests set
    instead, so that what is only timed takes less; figures that are not about speed must stay the same.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    title: str
    source: str
    published: str
    ours: str
    measure: str
    seconds: int = Field(gt=0)
    data: str | None = None
    options: dict[str, Any] = {}
    in_tests: dict[str, Any] = {}
    expected: list[Expected] = Field(min_length=1)

    def is_quick(self, seconds: int = 120) -> bool:
        """Whether it takes fewer seconds and needs no data."""
        return self.seconds < seconds and not self.data


@dataclass(frozen=True)
class Table:
    """A table of the page. An empty cell is a dash."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Measured:
    """What an experiment found: figures by name, tables for the page, and remarks on this run of it."""

    figures: dict[str, float]
    tables: tuple[Table, ...] = ()
    remarks: tuple[str, ...] = field(default=())


Measure = Callable[[Mapping[str, Any], str | None], Measured]


def names() -> list[str]:
    """All reproductions, by name."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name: str) -> Configuration:
    """The configuration of a reproduction. Raises ConfigError where there is none, or it is wrong."""
    path = FOLDER / f"{name}.yaml"
    if name not in names():
        raise ConfigError(
            f"no reproduction {name!r}",
            why=f"there are {', '.join(names())}",
            fix=did_you_mean(name, names()) or "name one of these",
        )
    try:
        return Configuration.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (yaml.YAMLError, ValidationError) as error:
        raise ConfigError(f"{path.name} is not a reproduction", where=path, why=str(error)) from error


def measure_of(configuration: Configuration) -> Measure:
    """The function that measures."""
    module = import_module(f"reproductions.measures.{configuration.measure}")
    found: Measure = module.measure
    return found
