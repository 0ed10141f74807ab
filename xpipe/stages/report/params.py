"""Section `report` of a pipeline file: what the report shows. Holds no drawing."""

from __future__ import annotations

from pydantic import Field

from xpipe.engine.params import Params


class ReportParams(Params):
    """Section `report`: what report.html shows. On by default; `report: none` leaves the report out."""

    groups: int = Field(default=5, ge=0, le=100)  # easy groups, and doubtful ones, that are shown with their members
