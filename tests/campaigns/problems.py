"""Random problems through every method of `impute`: nothing raises, no label is lost, and nothing else decides a byte.

The problems and the invariants are those of tests/eagle; here are many of them.
"""

from __future__ import annotations

import multiprocessing
import traceback

from tests.campaigns import Outcome
from tests.eagle.invariants import METHODS, check_everything
from tests.eagle.problems import random_problem
from xpipe.cli.progress import Progress
from xpipe.ground.machine import usable_cores

PROBLEMS = 2000


def problems(seed: int) -> Outcome:
    outcome = Outcome()
    first = seed * PROBLEMS
    with Progress() as progress, multiprocessing.get_context("spawn").Pool(usable_cores()) as pool:
        bar = progress.stage("random problems", total=PROBLEMS, unit="problems")
        for failure in pool.imap_unordered(_try, range(first, first + PROBLEMS), chunksize=10):
            outcome.count("problems")
            if failure:
                outcome.failures.append(failure)
            bar.advance()
        bar.done()
    outcome.figures["methods each"] = len(METHODS)
    return outcome


def _try(seed: int) -> str:
    """What went wrong with one problem; "" for nothing."""
    kind, matrices = random_problem(seed)
    try:
        check_everything(*matrices, seed)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{kind}: {type(error).__name__}: {str(error)[:200]} ({last.name}, line {last.lineno})"
    return ""
