"""Did a change make anything slower? The working tree against another commit, side by side in one run.

    python benchmarks/against.py [COMMIT] [--data folder] [--turns 9]

Times the calls that users wait for, with the code of both: `impute` of every method, `embed`, `verify`, `evaluate`,
`predict` of a tree and of a head, and the LML loss. One process per side stays alive, and both make the same call in
turn, so that they meet the same machine: its speed may change within seconds, and the ratio of a turn does not show it.
The first call of each is not timed; the median ratio counts. Data: the rows of folder/train.txt and test.txt, a
stand-in of EURLex-4K by default. Exit code 1 where a call takes more than a tenth longer, and more than two
milliseconds. COMMIT is HEAD by default; `make bench` leaves this file out.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

SLOWER = 1.10
NOISE = 0.002  # seconds
AT_LEAST = 0.2  # seconds: a call that takes less is made again until this is over
METHODS = ("baseline", "eagle0", "eagle", "centred", "discriminative")


def calls(folder: str, scratch: str) -> dict[str, Callable[[], object]]:
    """What is timed, by name; only names that the oldest commit of interest has."""
    import torch

    from xpipe.argmaxability import verify
    from xpipe.eagle import embed, impute
    from xpipe.formats import read_xmc
    from xpipe.grouping import random_groups
    from xpipe.heads import BSL, HeadModel, SparseEncoder, Targets, lml_loss, matrix_batches
    from xpipe.metrics import evaluate
    from xpipe.trees import LabelTree

    torch.set_num_threads(2)
    train, test = (os.path.join(folder, name) for name in ("train.txt", "test.txt"))
    X, Y = read_xmc(train)
    X_test, Y_test = read_xmc(test)
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X = sp.csr_matrix(sp.diags_array(1 / np.where(lengths > 0, lengths, 1)) @ X, dtype=np.float32)
    Y1, Y2 = random_groups(Y, 10, seed=0)
    tree = LabelTree(n_trees=1, seed=0).fit(X, Y, threads=2)
    scores = os.path.join(scratch, "scores.npz")
    sp.save_npz(scores, tree.predict(X_test, k=100))
    draw = np.random.default_rng(0)
    weights, few = draw.standard_normal((Y.shape[1], 50)), Y_test[:400]
    torch.manual_seed(0)
    head = HeadModel(SparseEncoder(X.shape[1], 64), BSL(64, Y.shape[1], dim=50))
    logits = torch.randn(64, Y.shape[1], requires_grad=True)
    targets = Targets.of(np.split(Y_test.indices, Y_test.indptr[1:-1])[:64])

    def loss() -> None:
        logits.grad = None
        lml_loss(logits, targets, 5).sum().backward()

    timed: dict[str, Callable[[], object]] = {
        f"impute, {method}": lambda method=method: impute(X, Y1, Y2, method, seed=0) for method in METHODS
    }
    return timed | {
        "embed, 20 steps": lambda: embed(X, Y1, Y2, steps=20),
        "verify, 400 sets, d = 50": lambda: verify(weights, few),
        "evaluate, 100 best": lambda: evaluate(test, scores, train=train),
        "predict, tree, k = 5": lambda: tree.predict(X_test, k=5),
        "predict, BSL head, k = 5": lambda: head.predict(matrix_batches(X_test), k=5),
        "lml_loss and its gradient": loss,
    }


def serve(folder: str) -> None:
    """Make the call that each line of the input names; answer with its seconds."""
    with tempfile.TemporaryDirectory(prefix="xpipe-against-") as scratch:
        known = calls(folder, scratch)
        for call in known.values():
            call()
        print(json.dumps(list(known)), flush=True)
        for line in sys.stdin:
            print(_seconds(known[line.rstrip("\n")]), flush=True)


def _seconds(call: Callable[[], object]) -> float:
    times, start = 0, time.perf_counter()
    while times == 0 or time.perf_counter() - start < AT_LEAST:
        call()
        times += 1
    return (time.perf_counter() - start) / times


class Side:
    """A process that imports the xpipe of a checkout and makes the calls it is asked for."""

    def __init__(self, checkout: str, folder: str):
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--serve", folder], cwd=checkout, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": checkout, "OMP_NUM_THREADS": "2"},
        )  # fmt: skip
        self.names: list[str] = json.loads(self._answer())

    def seconds(self, name: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        return float(self._answer())

    def close(self) -> None:
        self.process.communicate()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        if line := self.process.stdout.readline():
            return line
        raise RuntimeError(f"a side has ended with {self.process.wait()}")


def compare(commit: str, folder: str, turns: int) -> int:
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with tempfile.TemporaryDirectory(prefix="xpipe-against-") as scratch, contextlib.ExitStack() as parts:
        other = os.path.join(scratch, "other")
        git = ["git", "-C", here, "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", other, commit], check=True)
        parts.callback(subprocess.run, [*git, "remove", "--force", other], check=False)
        if not folder:
            from xpipe.synth.stand_in import synthesize

            folder = os.path.join(scratch, "data")
            synthesize("eurlex-4k", seed=0, out=folder)
        then, now = (parts.enter_context(contextlib.closing(Side(checkout, folder))) for checkout in (other, here))
        print(f"{'median of ' + str(turns) + ' turns, seconds':<28}{commit[:12]:>12}{'here':>12}{'here / then':>13}")
        return int(sum([_is_slower(name, then, now, turns) for name in then.names]) > 0)


def _is_slower(name: str, then: Side, now: Side, turns: int) -> bool:
    """Time a call on both sides in turn, and print what was found."""
    pairs = []
    for turn in range(turns):
        first = then.seconds(name) if turn % 2 else None
        second = now.seconds(name)
        pairs.append((then.seconds(name) if first is None else first, second))
    before, after = np.median(pairs, axis=0)
    ratio = float(np.median([new / old for old, new in pairs]))
    slower = ratio > SLOWER and after > before + NOISE
    print(f"{name:<28}{before:>12.4f}{after:>12.4f}{ratio:>13.2f}{'  slower' if slower else ''}", flush=True)
    return slower


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", default="HEAD")
    parser.add_argument("--data", default="", help="a folder with train.txt and test.txt")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return 0
    return compare(options.commit, options.data and os.path.abspath(options.data), options.turns)


if __name__ == "__main__":
    sys.exit(main())
