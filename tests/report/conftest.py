"""The reports that several tests look at, each made once."""

from __future__ import annotations

import pytest

from tests.report.runs import matrix, write_run
from xpipe.report import matrix_report, run_report


@pytest.fixture(scope="session")
def text(tmp_path_factory) -> str:
    """The report of a run that has everything."""
    return run_report(str(write_run(tmp_path_factory.mktemp("run"))))


@pytest.fixture(scope="session")
def matrix_text() -> str:
    """The report of a matrix."""
    return matrix_report("runs/m", matrix())
