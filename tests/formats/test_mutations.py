"""Damaged inputs of every kind: each ends in a matrix a slow twin agrees with, or in an error of the user's data.

Run in processes of their own with bounded memory, so that a crash, a hang or a bomb is seen and not suffered.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import mutations
from tests.formats import mutated

A_FILE = 20  # mutations of each file


@pytest.mark.parametrize("kind", [*mutations.KINDS, "scores"])
def test_damaged_files_are_read_right_or_refused(tmp_path, kind):
    command = [sys.executable, "-m", "tests.formats.mutated", kind, str(tmp_path), str(A_FILE)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, cwd=Path(__file__).parents[2], check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["wrong"] == []
    assert found["tried"] >= A_FILE


def test_at_least_300_mutations_are_tried(tmp_path):
    files = sum(len(mutations.write_folder(kind, tmp_path / kind)) for kind in mutations.KINDS)
    assert files * A_FILE >= 300


def test_the_same_seed_gives_the_same_mutations():
    content = b"12 9 5\n0,1 2:3\n"
    first, again = (list(mutations.mutations(content, 7, 16)) for _ in range(2))
    assert first == again
    assert {each.how for each in first} == set(mutations.MUTATORS)


def test_the_twin_knows_right_from_wrong():
    assert mutated.parse_strictly(b"1 3 2\n0 1:2\n", "xmc") is not None
    for wrong in (b"1 3 2\n 0 1:2\n", b"2 3 2\n0 1:2\n", b"1 3 2\n0 1:2 1:3\n", b"1 3 2\n0 3:2\n"):
        assert mutated.parse_strictly(wrong, "xmc") is None
