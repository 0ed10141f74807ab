"""CPU time and work of a forward and backward pass against k: LML, truncated top-k entropy, smooth top-k SVM.

Time of the process, not of the clock: other work on the machine does not count. Work is the numbers that PyTorch
computes: it is the same on every machine. It is counted in float64, where LML has no kernels of its own. Holds no loss.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from reproductions.configuration import Measured, Table
from reproductions.measures.smooth_svm import smooth_svm_loss

LML, ENTROPY, SVM = "LML", "truncated top-k entropy", "smooth top-k SVM"


def measure(options: Mapping[str, Any], data: str | None) -> Measured:
    """CPU seconds of each loss for every k, best of all rounds; they take turns. Numbers computed per logit.

    options: batch, labels, ks (the first is the smallest), rounds, counted (rows whose work is counted).
    """
    torch.manual_seed(0)
    scores = torch.randn(options["batch"], options["labels"], requires_grad=True)
    labels = torch.randint(options["labels"], (options["batch"],))
    ks = options["ks"]
    acts = {(name, k): act for k in ks for name, act in losses(scores, labels, k).items()}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # threads that wait for each other would count
    try:
        seconds = best_times(acts, options["rounds"])
    finally:
        torch.set_num_threads(threads)
    figures, first, last = {}, ks[0], ks[-1]
    for name in (LML, ENTROPY, SVM):
        figures[f"{name}: k = {last} over k = {first}"] = seconds[name, last] / seconds[name, first]
    figures[f"{SVM} over {LML} at k = {last}"] = seconds[SVM, last] / seconds[LML, last]
    figures[f"{LML} over {ENTROPY} at k = {last}"] = seconds[LML, last] / seconds[ENTROPY, last]
    work = {(name, k): found for k in ks for name, found in numbers_per_logit(options, k).items()}
    for name in (LML, ENTROPY, SVM):
        figures[f"{name}, numbers computed: k = {last} over k = {first}"] = work[name, last] / work[name, first]
    figures[f"{SVM}, numbers computed: over {LML} at k = {last}"] = work[SVM, last] / work[LML, last]
    columns = ("k", LML, ENTROPY, SVM)
    rows = tuple((str(k), *(f"{seconds[name, k] * 1e3:.1f}" for name in columns[1:])) for k in ks)
    counts = tuple((str(k), *(f"{work[name, k]:.1f}" for name in columns[1:])) for k in ks)
    times = Table("CPU milliseconds of a forward and backward pass", columns, rows)
    return Measured(figures, (times, Table("Numbers computed per logit, in float64", columns, counts)))


def numbers_per_logit(options: Mapping[str, Any], k: int) -> dict[str, float]:
    """Numbers that a forward and backward pass of each loss computes, by its name."""
    torch.manual_seed(0)
    scores = torch.randn(options["counted"], options["labels"], dtype=torch.float64, requires_grad=True)
    labels = torch.randint(options["labels"], (options["counted"],))
    found = {}
    for name, act in losses(scores, labels, k).items():
        with Counted() as counted:
            act()
        found[name] = counted.numbers / scores.numel()
    return found


class Counted(TorchDispatchMode):
    """Counts the numbers that operations of PyTorch give back. Views compute none."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = func(*args, **(kwargs or {}))
        if not func.is_view:
            parts = given if isinstance(given, (tuple, list)) else [given]
            self.numbers += sum(math.prod(part.shape) for part in parts if isinstance(part, torch.Tensor))
        return given


def losses(scores: torch.Tensor, labels: torch.Tensor, k: int) -> dict[str, Callable[[], None]]:
    """One forward and backward pass of each loss, by its name."""
    from xpipe.heads import Targets, lml_loss, topk_entropy_loss

    targets = Targets(torch.arange(len(labels) + 1), labels)
    found = {
        LML: lambda: lml_loss(scores, targets, k),
        ENTROPY: lambda: topk_entropy_loss(scores, targets, k),
        SVM: lambda: smooth_svm_loss(scores, labels, k),
    }

    def step(loss: Callable[[], torch.Tensor]) -> Callable[[], None]:
        def run() -> None:
            scores.grad = None
            loss().backward()

        return run

    return {name: step(loss) for name, loss in found.items()}


def best_times(acts: Mapping[tuple[str, int], Callable[[], None]], rounds: int) -> dict[tuple[str, int], float]:
    """CPU seconds of each act, best of all rounds after one that does not count."""
    best = dict.fromkeys(acts, np.inf)
    for turn in range(rounds + 1):
        for name, act in acts.items():
            started = time.process_time()
            act()
            if turn:
                best[name] = min(best[name], time.process_time() - started)
    return best
