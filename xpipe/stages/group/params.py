"""Section `group` of a pipeline file: which samples share their labels. Holds no rules: those are `grouping`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from xpipe.engine.params import Params


class GroupParams(Params):
    """Section `group`: which samples share their labels."""

    rule: Literal["random", "kmeans", "given"]
    size: int | None = Field(default=None, ge=1)  # rule random: samples per group
    depth: int | None = Field(default=None, ge=0)  # rule kmeans: 2**depth groups of samples that look alike
    noise: float | None = Field(default=None, ge=0, le=1e6)  # rule kmeans: 0 (default) homogeneous, above 10 random
    file: str | None = None  # rule given: one group id per line, or a membership matrix (Y1); by default data.group

    @model_validator(mode="after")
    def _complete(self) -> GroupParams:
        needs, takes = {"random": ("size", ()), "kmeans": ("depth", ("noise",)), "given": ("file", ())}[self.rule]
        if getattr(self, needs) is None and self.rule != "given":
            raise ValueError(f"rule {self.rule} needs `{needs}`")
        for option in ("size", "depth", "noise", "file"):
            if option != needs and option not in takes and getattr(self, option) is not None:
                raise ValueError(f"rule {self.rule} takes no `{option}`")
        return self

    @property
    def by_table(self) -> bool:
        """Whether the groups are those of the column `data.group`."""
        return self.rule == "given" and self.file is None

    @property
    def kmeans_noise(self) -> float:
        """The noise of the rule kmeans; by default none, as in `kmeans_groups`."""
        return 0.0 if self.noise is None else self.noise
