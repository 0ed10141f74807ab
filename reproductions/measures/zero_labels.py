"""Rows without labels: heads that know them in training, on scikit-learn's digits. Holds no head of its own.

As in CIFAR60+40 of the paper, 6 of 10 classes keep their labels (IN) and the images of the others have none (OUT), in
training and in the test. Noise and few training rows keep the digits from being too easy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from reproductions.configuration import Measured, Table
from xpipe.heads import Binary, Head, Quasibinary, Softmax, Targets
from xpipe.metrics import auroc

BINARY, UNIFORM, MAXCONF, QUASIBINARY = "binary", "softmax + uniform", "softmax + max conf", "quasibinary"
IN_CLASSES = 6
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # (logits, classes; -1: none) -> mean over rows


@dataclass(frozen=True)
class Digits:
    """Images and classes, -1 where the label is removed."""

    train: torch.Tensor
    train_classes: torch.Tensor
    test: torch.Tensor
    test_classes: torch.Tensor


def measure(options: Mapping[str, Any], data: str | None) -> Measured:
    """IN accuracy (%), OUT mean maximum confidence (%) and AU-ROC of each method, means over the seeds.

    options: rows (of training), noise, width, epochs, batch, rate, seeds.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # matrices are tiny
    try:
        found = {
            method: np.mean([one_run(method, options, seed) for seed in range(options["seeds"])], axis=0)
            for method in (BINARY, UNIFORM, MAXCONF, QUASIBINARY)
        }
    finally:
        torch.set_num_threads(threads)
    names = ("IN accuracy", "OUT MMC", "AU-ROC")
    figures = {f"{method}: {name}": value for method in found for name, value in zip(names, found[method], strict=True)}
    rows = tuple((method, f"{a:.1f}", f"{m:.1f}", f"{r:.3f}") for method, (a, m, r) in found.items())
    return Measured(figures, (Table("Ours, on digits", ("method", "IN accuracy, %", "OUT MMC, %", "AU-ROC"), rows),))


def one_run(method: str, options: Mapping[str, Any], seed: int) -> tuple[float, float, float]:
    """The three figures of one method and seed."""
    digits = draw_digits(options["rows"], options["noise"], seed)
    torch.manual_seed(seed)
    body = torch.nn.Sequential(torch.nn.Linear(64, options["width"]), torch.nn.ReLU())
    kinds = {BINARY: Binary, QUASIBINARY: Quasibinary}
    head: Head = kinds.get(method, Softmax)(options["width"], IN_CLASSES)
    loss = loss_of(method, head)
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=options["rate"])
    for _ in range(options["epochs"]):
        for batch in torch.randperm(len(digits.train)).split(options["batch"]):
            optimizer.zero_grad()
            loss(head(body(digits.train[batch])), digits.train_classes[batch]).backward()
            optimizer.step()
    head.eval()
    with torch.no_grad():
        hidden = body(digits.test)
        logits, confidence = head(hidden), head.probabilities(hidden).amax(dim=1)
    inside = digits.test_classes >= 0
    right = logits.argmax(dim=1)[inside] == digits.test_classes[inside]
    # cut at 1, confidences of quasibinary tie: its logits have the same order without ties
    order = logits.amax(dim=1) if method in kinds else confidence
    found = auroc(order[inside].double().numpy(), order[~inside].double().numpy())
    return 100 * float(right.float().mean()), 100 * float(confidence[~inside].mean()), found


def draw_digits(n_rows: int, noise: float, seed: int) -> Digits:
    """`n_rows` of training, all others for the test; which classes are IN depends on the seed."""
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(seed)
    found = load_digits()
    kept = np.full(10, -1)
    kept[rng.permutation(10)[:IN_CLASSES]] = np.arange(IN_CLASSES)
    images = found.data / 16 + noise * rng.standard_normal(found.data.shape)
    order = rng.permutation(len(images))
    X, classes = torch.tensor(images[order], dtype=torch.float32), torch.tensor(kept[found.target[order]])
    return Digits(X[:n_rows], classes[:n_rows], X[n_rows:], classes[n_rows:])


def loss_of(method: str, head: Head) -> Loss:
    """What a method minimises. Softmax heads need a term of their own for rows without labels."""

    def labelled(logits: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        return head.loss(logits, Targets.of([[int(c)] if c >= 0 else [] for c in classes]))

    def uniform(logits: torch.Tensor) -> torch.Tensor:  # the divergence from a uniform distribution, but for a constant
        return -torch.log_softmax(logits, dim=1).mean(dim=1).sum()

    def largest(logits: torch.Tensor) -> torch.Tensor:  # the log of the largest confidence
        return torch.log_softmax(logits, dim=1).amax(dim=1).sum()

    if method not in (UNIFORM, MAXCONF):
        return labelled
    outside = uniform if method == UNIFORM else largest
    return lambda logits, classes: labelled(logits, classes) + outside(logits[classes < 0]) / len(classes)
