"""What a name of the user's clusters.yaml stands for: a Dask cluster class with its options, or an address.

Reads no file (`config.clusters` does) and starts nothing (`started` does).
"""

from __future__ import annotations

import re
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from xpipe.engine.params import Params
from xpipe.ground.quantities import parse_bytes, parse_duration

RESERVED = ("none", "local")  # kinds that need no definition
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
TYPE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
ADDRESS = re.compile(r"(tcp|tls|ucx|ws|wss)://(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.-]+):(?P<port>[0-9]{1,5})/?")


def is_address(text: str) -> bool:
    """Whether a text can be the address of a Dask scheduler.

    Examples
    --------
    >>> is_address("tls://head:8786"), is_address("tcp://head")
    (True, False)
    """
    found = ADDRESS.fullmatch(text)
    return found is not None and 0 < int(found["port"]) < 2**16


class Adapt(Params):
    """Key `adapt`: workers come and go with the work."""

    minimum: int = Field(default=1, ge=1)  # workers that always stay; the first ones are waited for
    maximum: int = Field(ge=1)  # workers at the same time
    idle: str | int = "5min"  # how long a worker may be without work before it is released

    @field_validator("idle")
    @classmethod
    def _readable_duration(cls, text: str | int) -> str | int:
        """Refuse what is no duration."""
        parse_duration(text)
        return text

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        """Refuse a minimum above the maximum."""
        if self.minimum > self.maximum:
            raise ValueError(f"`minimum` ({self.minimum}) is above `maximum` ({self.maximum})")
        return self


class ClusterDefinition(Params):
    """One cluster of clusters.yaml: how it is started, or where it is."""

    type: str | None = None  # a Dask cluster class, such as dask_jobqueue.SLURMCluster
    address: str | None = None  # of a scheduler that runs already; the short form `lab: tcp://host:8786` is the same
    workers: int | None = Field(default=None, ge=1)  # how many are started, and for how many tasks are cut
    adapt: Adapt | None = None  # start and stop workers as they are needed, instead of `workers` at once
    options: dict[str, Any] = {}  # what the class is called with
    memory_limit: str | int | None = None  # of each worker: tasks are cut for it
    worker_timeout: str | int | None = None  # longest time without any worker: how long a queue may take

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, given: Any) -> Any:
        """Take the short form `lab: tcp://host:8786`."""
        return {"address": given} if isinstance(given, str) else given

    @field_validator("type")
    @classmethod
    def _dotted(cls, name: str | None) -> str | None:
        """Refuse what cannot be the name of a class in a module."""
        if name is not None and not TYPE.fullmatch(name):
            raise ValueError("must be a class with its module, such as dask_jobqueue.SLURMCluster")
        return name

    @field_validator("address")
    @classmethod
    def _an_address(cls, address: str | None) -> str | None:
        """Refuse what is no address."""
        if address is not None and not is_address(address):
            raise ValueError("must be a scheduler's address such as tcp://host:8786")
        return address

    @field_validator("memory_limit")
    @classmethod
    def _readable_bytes(cls, text: str | int | None) -> str | int | None:
        """Refuse what is no number of bytes."""
        if text is not None:
            parse_bytes(text)
        return text

    @field_validator("worker_timeout")
    @classmethod
    def _readable_duration(cls, text: str | int | None) -> str | int | None:
        """Refuse what is no duration."""
        if text is not None:
            parse_duration(text)
        return text

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        """Refuse both a class and an address, neither of them, and options of a class that is not given."""
        if self.type is None and self.address is None:
            raise ValueError("give `type`, a Dask cluster class, or `address`, that of a running scheduler")
        if self.address is not None:
            extra = [key for key in ("type", "adapt", "options") if key in self.model_fields_set]
            if extra:
                raise ValueError(f"`{extra[0]}` cannot be given with `address`: that cluster runs already")
        return self
