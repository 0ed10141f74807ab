"""What several tests of formats need."""

from __future__ import annotations

import pytest


@pytest.fixture
def write(tmp_path):
    """Writes a small file; gives its path."""

    def write_file(content: str | bytes, name: str = "f.txt") -> str:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write_file
