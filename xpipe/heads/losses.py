"""Losses for label sets that are given as lists of labels; each is a mean over the rows of a batch.

Holds no layers and no arithmetic (`loss_gradients`), and makes no dense targets. A loss sums over labels, it takes no
mean over them, so that it does not shrink as labels are added.
"""

from __future__ import annotations

import math

import torch

from xpipe.errors import ConfigError, DataError
from xpipe.heads.lml import check_k
from xpipe.heads.loss_gradients import BinaryLoss, ProjectedLoss, QuasibinaryLoss, SoftmaxLoss, TopkEntropyLoss
from xpipe.heads.targets import Targets


def bce_loss(logits: torch.Tensor, targets: Targets) -> torch.Tensor:
    """Binary cross-entropy of sigmoid(logits), summed over labels: sum of softplus(z) - sum of z over the targets.

    Parameters
    ----------
    logits : tensor of float, shape (rows, n_labels)
        The logits z.
    targets : Targets
        The label sets of the rows.

    Returns
    -------
    tensor of float, shape ()
        The mean over the rows; differentiable.

    Raises
    ------
    DataError
        If the shapes do not fit, or a label is out of range.

    Examples
    --------
    >>> import torch
    >>> from xpipe.heads import Targets, bce_loss
    >>> bce_loss(torch.zeros(2, 3), Targets.of([[0], []]))  # 3 log 2
    tensor(2.0794)
    """
    _check(logits, targets)
    found: torch.Tensor = BinaryLoss.apply(logits, targets.rows(), targets.labels, targets.chances)
    return found


def softmax_loss(logits: torch.Tensor, targets: Targets, temperature: float = 1.0) -> torch.Tensor:
    """Cross-entropy of softmax(logits / temperature) with a target that is shared equally among the labels of a row.

    Parameters
    ----------
    logits : tensor of float, shape (rows, n_labels)
        The logits.
    targets : Targets
        The label sets of the rows. A row without labels adds 0.
    temperature : float, default 1.0
        Above 0.

    Returns
    -------
    tensor of float, shape ()
        The mean over the rows; differentiable.

    Raises
    ------
    ConfigError
        Unless temperature > 0.
    DataError
        If the shapes do not fit, or a label is out of range.

    Examples
    --------
    >>> import torch
    >>> from xpipe.heads import Targets, softmax_loss
    >>> softmax_loss(torch.zeros(1, 4), Targets.of([[0, 2]]))  # log 4
    tensor(1.3863)
    """
    _check(logits, targets)
    check_temperature(temperature)
    found: torch.Tensor = SoftmaxLoss.apply(logits, targets, temperature)
    return found


def topk_entropy_loss(logits: torch.Tensor, targets: Targets, k: int) -> torch.Tensor:
    """Truncated top-k entropy (Lapin, Hein and Schiele, CVPR 2016), summed over the labels of a row.

    For each label y of a row: log(1 + sum of exp(f_j - f_y) over some other labels j). These j are the n - k labels of
    smallest score among those that are not in the row's set. With one label per row, these are all others but the k - 1
    largest; k = 1 is then the softmax loss. The gradient treats the choice of j as constant.

    Parameters
    ----------
    logits : tensor of float, shape (rows, n_labels)
        The scores f.
    targets : Targets
        The label sets of the rows.
    k : int
        At least 1.

    Returns
    -------
    tensor of float, shape ()
        The mean over the rows; differentiable.

    Raises
    ------
    ConfigError
        Unless k is a whole number of at least 1.
    DataError
        If the shapes do not fit, or a label is out of range.

    Examples
    --------
    >>> import torch
    >>> from xpipe.heads import Targets, topk_entropy_loss
    >>> topk_entropy_loss(torch.zeros(1, 4), Targets.of([[0]]), k=2)  # log(1 + 2)
    tensor(1.0986)
    """
    _check(logits, targets)
    check_k(k)
    found: torch.Tensor = TopkEntropyLoss.apply(logits, targets, k)
    return found


def lml_loss(logits: torch.Tensor, targets: Targets, k: int) -> torch.Tensor:
    """Minus the sum of log y over the observed labels, where y is `lml_projection(logits, k)`.

    The loss of Amos, Koltun and Kolter (arXiv 1906.08707). Loss and gradient are correct to rounding, also where all y
    round to 0 or 1.

    Parameters
    ----------
    logits : tensor of float, shape (rows, n_labels)
        The logits.
    targets : Targets
        The observed labels of the rows.
    k : int
        At least 1.

    Returns
    -------
    tensor of float, shape ()
        The mean over the rows; differentiable.

    Raises
    ------
    ConfigError
        Unless k is a whole number of at least 1.
    DataError
        If the shapes do not fit, a label is out of range, or a logit is not finite.

    Examples
    --------
    >>> import torch
    >>> from xpipe.heads import Targets, lml_loss
    >>> lml_loss(torch.zeros(1, 4), Targets.of([[0]]), k=2)  # y = 1/2 for all labels
    tensor(0.6931)
    """
    _check(logits, targets)
    check_k(k)
    found: torch.Tensor = ProjectedLoss.apply(logits, targets, k)
    return found


def quasibinary_loss(
    logits: torch.Tensor, targets: Targets, log_normaliser: torch.Tensor | float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of quasibinary classifiers (Liao, Gavves, Oh and Snoek, ICPR 2020), with log q = z - log C.

    For each row: sum of max(log q, 0) over all labels - sum of log q over the row's labels. C is the sum of exp(z) over
    the whole batch, divided by its number of labels; the gradient goes through C.

    Parameters
    ----------
    logits : tensor of float, shape (rows, n_labels)
        The logits z.
    targets : Targets
        The label sets of the rows.
    log_normaliser : tensor of float, shape (), or float, optional
        log C for a batch without any label, as a constant. By default the log C of one label per row.

    Returns
    -------
    loss : tensor of float, shape ()
        The mean over the rows; differentiable.
    log_c : tensor of float, shape ()
        log C, without gradient.

    Raises
    ------
    DataError
        If the shapes do not fit, or a label is out of range.

    Examples
    --------
    >>> import torch
    >>> from xpipe.heads import Targets, quasibinary_loss
    >>> loss, log_c = quasibinary_loss(torch.zeros(1, 4), Targets.of([[0]]))  # C = 4
    >>> loss, log_c
    (tensor(1.3863), tensor(1.3863))
    """
    _check(logits, targets)
    if log_normaliser is None:
        log_normaliser = torch.logsumexp(logits.detach().flatten(), 0) - math.log(max(len(targets), 1))
    given = torch.as_tensor(log_normaliser, dtype=logits.dtype, device=logits.device)
    found: tuple[torch.Tensor, torch.Tensor] = QuasibinaryLoss.apply(logits, targets, given)
    return found


def check_temperature(temperature: float) -> None:
    """Raise ConfigError unless the temperature is a finite number above 0."""
    if not (temperature > 0 and math.isfinite(temperature)):
        raise ConfigError(f"`temperature` must be a positive number, got {temperature}")


def _check(logits: torch.Tensor, targets: Targets) -> None:
    """Raise DataError unless logits and targets fit."""
    if logits.ndim != 2 or len(targets) != logits.shape[0]:
        raise DataError(
            f"{len(targets)} label sets for logits of shape {list(logits.shape)}",
            fix="logits: one row per sample, one column per label; targets: one set per sample",
        )
    labels = targets.labels
    if targets.chances is not None and targets.chances.shape != labels.shape:
        raise DataError(
            f"{list(targets.chances.shape)} chances for {list(labels.shape)} labels", fix="give one chance per label"
        )
    if labels.device.type != "cpu" or not len(
        labels
    ):  # a GPU checks indices itself; looking at them here would make it wait
        return
    if not 0 <= int(labels.min()) <= int(labels.max()) < logits.shape[1]:
        raise DataError(f"a label is outside 0..{logits.shape[1] - 1}", fix="count labels from 0")
