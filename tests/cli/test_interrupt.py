"""A Ctrl-C that arrives where Python drops what is raised is heard all the same."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import signal, sys, time
from xpipe.cli import main

class Fragile:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

def work(resume):
    resume.append("xpipe run it.yaml")
    fragile = Fragile()
    del fragile
    time.sleep(60)
    print("not interrupted")

main._invoke = work
main.main()
"""


def test_an_interrupt_in_a_finaliser_is_not_lost():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 130, done.stderr
    assert done.stdout == ""
    assert done.stderr == "interrupted; finished chunks are kept, to go on: xpipe run it.yaml\n"
