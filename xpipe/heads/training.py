"""Training a head behind a sparse encoder: AdamW, early stopping, checkpoints that resume to the same bytes.

Holds no epoch loop (`training_run`) and no calibration (`calibrating`). On the CPU the weights depend on data and
options alone: the batches of an epoch come from (seed, epoch), and a checkpoint after every epoch holds everything
else: weights, optimiser, random state, history.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch

from xpipe.ground.library_threads import one_thread_each
from xpipe.heads.calibrating import fit_calibration
from xpipe.heads.device import choose_device, fixed_threads
from xpipe.heads.options import TrainOptions
from xpipe.heads.training_run import Progress, Trained, TrainingRun

_one_at_a_time = threading.Lock()  # PyTorch has one random state per process, for first weights and dropout


def train_head(
    folder: str,
    options: TrainOptions,
    *,
    checkpoint: str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Trained:
    """Train a head on split "train" of an emitted heads/ dataset.

    Calls in several threads of a process wait for each other, because PyTorch has one random state per process. During
    training, NumPy's and SciPy's BLAS have one thread, PyTorch has `options.threads`.

    Parameters
    ----------
    folder : str
        The folder or URL of the dataset.
    options : TrainOptions
        The head, its encoder, and how they are trained.
    checkpoint : str, optional
        A folder for the state after every epoch. The same call continues from there and ends with the same weights, bit
        for bit on the CPU. A damaged checkpoint counts as none; `Trained.note` says so.
    progress : callable, optional
        Called with a `Progress` about every second and after every epoch.

    Returns
    -------
    Trained

    Raises
    ------
    ConfigError
        For options that do not fit the dataset, and for the checkpoint of another run.
    DataError
        For a damaged dataset, too few rows, and a loss that is not finite.
    BackendError
        If the CUDA device that was asked for cannot be used.

    Examples
    --------
    A small dataset, as stage emit writes them, and a head that learns it:

    >>> import json, os, tempfile
    >>> import numpy as np, scipy.sparse as sp
    >>> from xpipe.formats.parquet import write_dataset_part
    >>> from xpipe.ground.sparse import to_triple
    >>> folder, name = tempfile.mkdtemp(), "split=train/part-00000.parquet"
    >>> rows = to_triple(sp.csr_matrix(np.tile(np.eye(4, dtype=np.float32), (10, 1))))  # features, and labels too
    >>> path = os.path.join(folder, name)
    >>> part = write_dataset_part(path, np.arange(40), rows, rows, n_features=4, n_labels=4, row_group=16)
    >>> about = {"dataset": "heads", "n_features": 4, "n_labels": 4, "k": 1}
    >>> about["splits"] = {"train": {"rows": 40, "parts": [{"path": name, **part}]}}
    >>> with open(os.path.join(folder, "dataset.json"), "w") as file:
    ...     json.dump(about, file)
    >>> from xpipe.heads import TrainOptions, train_head
    >>> trained = train_head(folder, TrainOptions("binary", epochs=3, batch_size=8, validation=0.2, device="cpu"))
    >>> trained.best_epoch, [sorted(epoch) for epoch in trained.history[:1]]
    (1, [['epoch', 'loss', 'validation_loss', 'validation_ndcg']])
    """
    device = choose_device(options.device)
    with (
        _one_at_a_time,
        one_thread_each(),
        fixed_threads(options.threads),
        torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
    ):
        run = TrainingRun(folder, options, checkpoint, progress, device)
        run.train()
        if options.calibrate != "none":
            run.model.calibration = fit_calibration(run)
        return run.trained()
