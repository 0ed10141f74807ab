"""What the tests of pipeline files share."""

from __future__ import annotations

import pytest


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write p.yaml into the current directory."""
    monkeypatch.chdir(tmp_path)

    def put(text: str | bytes) -> str:
        (tmp_path / "p.yaml").write_bytes(text.encode() if isinstance(text, str) else text)
        return "p.yaml"

    return put
