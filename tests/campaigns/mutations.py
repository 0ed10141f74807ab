"""Damaged inputs of every kind: each is read as a slow twin reads it, or refused with an error of the user's data.

The mutations and the twin are those of tests/formats; here are many of them. A crash, a hang or a bomb costs a process
of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile

from tests.campaigns import Outcome
from tests.mutations import KINDS
from xpipe.cli.progress import Progress

MUTATIONS = 100  # of each file
LIMIT_SECONDS = 3600


def mutations(seed: int) -> Outcome:
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="xpipe-mutations-") as folder, Progress() as progress:
        bar = progress.stage("mutated inputs", total=len(KINDS), unit="kinds of input")
        for kind in KINDS:
            command = [sys.executable, "-m", "tests.formats.mutated", kind, folder, str(MUTATIONS), str(1 + seed)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                outcome.failures.append(f"{kind}: {error}: {str(error.stderr)[-500:]}")
                continue
            found = json.loads(done.stdout.splitlines()[-1])
            for name in ("tried", "read", "refused"):
                outcome.count(f"inputs {name}", found[name])
            outcome.failures += [f"{kind}: {problem}" for problem in found["wrong"]]
            bar.advance()
        bar.done()
    return outcome
