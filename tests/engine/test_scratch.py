"""Temporary folders: private, gone at the end, and gone at the next start if their process was killed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile

from xpipe.engine.cluster.scratch import PREFIX, remove_abandoned, scratch_folder

HOLD = """
import sys
from xpipe.engine.cluster.scratch import scratch_folder
with scratch_folder() as path:
    open(path + "/file", "w").close()
    print(path, flush=True)
    sys.stdin.read()
"""


def test_private_and_gone_at_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch_folder() as path:
        assert os.path.dirname(path) == str(tmp_path)
        assert os.stat(path).st_mode & 0o777 == 0o700
        os.mkdir(os.path.join(path, "dask-scratch-space"))
        with scratch_folder() as other:
            assert other != path
        assert os.path.isdir(path)  # the other one did not take it for abandoned
    assert not os.listdir(tmp_path)


def test_a_killed_process_leaves_nothing_for_ever(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.getcwd()}
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    with (
        subprocess.Popen([sys.executable, "-c", HOLD], **options) as killed,
        subprocess.Popen([sys.executable, "-c", HOLD], **options) as alive,
    ):
        left, held = killed.stdout.readline().strip(), alive.stdout.readline().strip()
        killed.kill()
        killed.wait()
        precious = tmp_path / "precious"
        precious.mkdir()
        (tmp_path / f"{PREFIX}link").symlink_to(precious)
        (tmp_path / f"{PREFIX}file").write_text("not a folder")
        remove_abandoned(str(tmp_path))
        assert not os.path.exists(left)
        assert os.path.exists(os.path.join(held, "file"))
        assert precious.is_dir()
        alive.communicate("")
    assert sorted(os.listdir(tmp_path)) == ["precious", f"{PREFIX}file", f"{PREFIX}link"]
    remove_abandoned(str(tmp_path / "nothing"))


def test_a_fork_that_drops_its_copy_takes_nothing_away(tmp_path, monkeypatch):
    """multiprocessing forgets what its forks inherited; torch forks to load batches."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    held = contextlib.ExitStack()
    path = held.enter_context(scratch_folder())
    child = os.fork()
    if child == 0:
        held.__exit__(None, None, None)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert os.path.isdir(path)
    held.close()
    assert not os.listdir(tmp_path)
