"""The base class of sections of a pipeline file, and the form in which they go into content keys.

Holds no section of any stage.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    """Base of every section of a pipeline file: unknown keys are errors, values do not change after validation."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def canonical_params(params: BaseModel, leave_out: Collection[str] = ()) -> dict[str, Any]:
    """Parameters as sorted plain JSON values, for a content key. Those that are None are absent.

    leave_out: parameters that change no byte of the output. Every `Stage.identity` takes its parameters from here, so
    that an option added later, with the default None for "as before", changes only the keys of pipelines that set it.
    """
    return dict(sorted(params.model_dump(mode="json", exclude_none=True, exclude=set(leave_out)).items()))
