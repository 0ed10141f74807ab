"""Sections of a pipeline file: strict, frozen, and as they go into content keys."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    """Base of every section of a pipeline file: unknown keys are errors, values do not change after validation."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def canonical_params(params: BaseModel, leave_out: Collection[str] = ()) -> dict[str, Any]:
    """Parameters as sorted plain JSON values for a content key; unset ones are absent, so new options keep old keys.

    Every `identity` takes its parameters from here, and leaves out those that change no byte: an option that is added
    later, with None for "as before", is then in the keys of those who set it, and of nobody else.
    """
    return dict(sorted(params.model_dump(mode="json", exclude_none=True, exclude=set(leave_out)).items()))
