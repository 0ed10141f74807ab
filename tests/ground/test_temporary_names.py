"""Names of temporary files: whose they are, and whether their writer is alive."""

from __future__ import annotations

import os
import socket

from hypothesis import given
from hypothesis import strategies as st

from tests.processes import dead_process
from xpipe.ground.temporary_names import is_abandoned, is_alive, temporary_name


@given(st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=40))
def test_our_own_temporary_files_are_not_abandoned(name):
    temporary = temporary_name(name)
    assert not is_abandoned(temporary)
    gone = temporary.replace(f".{os.getpid()}.", f".{2**22 + 7}.")  # above the largest id of a process
    assert is_abandoned(gone)


def test_only_temporary_files_of_dead_processes_of_this_host_are_abandoned():
    host, gone = socket.gethostname().replace(".", "-"), dead_process()
    assert is_abandoned(f".part-00000.arrow.{host}.{gone}.0a1b2c3d.tmp")
    assert is_abandoned(f".x.{host}.{10**30}.0a1b2c3d.tmp")
    for name in (
        f".part-00000.arrow.{host}.{os.getpid()}.0a1b2c3d.tmp",
        f".part-00000.arrow.{host}.1.0a1b2c3d.tmp",
        f".part-00000.arrow.not-{host}.{gone}.0a1b2c3d.tmp",
        f"part-00000.arrow.{host}.{gone}.0a1b2c3d.tmp",
        f".part-00000.arrow.{host}.{gone}.0a1b2c3d",
        f".part-00000.arrow.{host}.abc.0a1b2c3d.tmp",
        ".tmp", "tmp", "", ".lock", "part-00000.arrow",
    ):  # fmt: skip
        assert not is_abandoned(name), name


def test_is_alive():
    assert is_alive(os.getpid())
    assert is_alive(1)  # of another user, perhaps
    assert not is_alive(dead_process())
