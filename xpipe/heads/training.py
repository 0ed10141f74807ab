"""Training a head behind a sparse encoder: AdamW, early stopping, checkpoints that resume to the same bytes.

Holds no layer, no loss and no reading of rows. On the CPU the weights depend on data and options alone: an epoch's
batches come from (seed, epoch), and a checkpoint after every epoch holds all there is besides: weights, optimiser,
random state, history.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from xpipe import heads
from xpipe.errors import BackendError, DataError
from xpipe.formats.parquet import read_about
from xpipe.ground import seeding
from xpipe.ground.library_threads import one_thread_each
from xpipe.heads.batches import Batch, ParquetBatches
from xpipe.heads.checkpoint import Checkpoint, Facts
from xpipe.heads.encoder import SparseEncoder
from xpipe.heads.model import HeadModel, as_matrix
from xpipe.heads.options import TrainOptions
from xpipe.heads.packing import UNBUILDABLE
from xpipe.heads.targets import Targets
from xpipe.metrics.measuring import measure
from xpipe.metrics.predictions import rank

TOP = 5  # of the criterion nDCG@5
EVERY_SECONDS = 1.0  # between two calls of `progress` inside an epoch
_one_at_a_time = threading.Lock()  # PyTorch draws first weights and dropout from one random state a process


class Epoch(NamedTuple):
    """How far training is: rows of `epoch` (from 1) done, mean loss over them, seconds until `epochs` are trained."""

    epoch: int
    epochs: int
    rows: int
    of_rows: int
    loss: float
    seconds_left: float


@dataclass
class Trained:
    """A trained model (of its best epoch, on the CPU), what every epoch brought, and which epoch that was (from 1).

    note: why training began anew although there was a checkpoint; empty where it did not.
    """

    model: HeadModel
    history: list[Any]
    best_epoch: int
    device: str
    note: str = ""


def train_head(
    folder: str,
    options: TrainOptions,
    *,
    checkpoint: str | None = None,
    progress: Callable[[Epoch], None] | None = None,
) -> Trained:
    """Train a head on split "train" of an emitted heads/ dataset.

    checkpoint: a folder for the state after every epoch; the same call goes on from there, and ends with the same
    weights, bit for bit on the CPU. A damaged checkpoint counts as none: `Trained.note` tells. progress: called about
    every second and after every epoch. Raises ConfigError for options that do not fit and for the checkpoint of
    another run, DataError for a damaged dataset, or where the loss stops being a number, BackendError for a CUDA device
    that cannot be used.
    Calls in several threads of a process wait for each other: PyTorch has one random state a process. NumPy's and
    SciPy's BLAS have one thread meanwhile, PyTorch has `options.threads`.
    """
    device = choose_device(options.device)
    with (
        _one_at_a_time,
        one_thread_each(),
        fixed_threads(options.threads),
        torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
    ):
        return _Run(folder, options, checkpoint, progress, device).finish()


class _Run:
    """One training run: its model, optimiser, batches and history."""

    def __init__(
        self,
        folder: str,
        options: TrainOptions,
        checkpoint: str | None,
        progress: Callable[[Epoch], None] | None,
        device: torch.device,
    ):
        self.options, self.device, self.progress = options, device, progress
        shared: dict[str, Any] = {"batch_size": options.batch_size, "seed": options.seed}
        self.batches = ParquetBatches(folder, validation=options.validation, **shared)
        self.held_out = None
        if options.validation:
            self.held_out = ParquetBatches(
                folder, validation=options.validation, role="validation", shuffle=False, **shared
            )
        self.n_rows = self.batches.count_rows()
        if not self.n_rows or (self.held_out is not None and not self.held_out.count_rows()):
            raise DataError("too few rows to train on and to hold out", where=folder, fix="another `validation` share")
        self.checkpoint, self.note = None, ""
        self.start()
        if checkpoint is not None:
            digests = [part["sha256"] for part in read_about(folder)["splits"]["train"]["parts"]]
            self.checkpoint = Checkpoint(checkpoint, {"options": options.decisive(device.type), "parts": digests})
            try:
                self.resume()
            except (DataError, *UNBUILDABLE) as error:  # the latter: tensors of another model or library
                self.note = f"the checkpoint is damaged, training began anew: {error}"
                self.start()

    def start(self) -> None:
        """A new model, the same each time, and nothing learned."""
        options = self.options
        torch.manual_seed(int(seeding.bit_generator(options.seed, "head").random_raw() >> np.uint64(1)))
        encoder = SparseEncoder(
            self.batches.n_features, options.width, options.hidden,
            normalize=options.normalize, dropout=options.dropout,
        )  # fmt: skip
        head = heads.make_head(options.layer, in_dim=encoder.out_dim, n_labels=self.batches.n_labels, **options.head)
        self.model = HeadModel(encoder, head).to(self.device)
        self.optimiser = make_optimiser(self.model, options)
        self.history: list[Any] = []
        self.best_epoch = 0
        self.best: dict[str, torch.Tensor] = {}

    def finish(self) -> Trained:
        while not self.is_done():
            self.train_epoch(len(self.history) + 1)
        self.model.load_state_dict(self.best)
        self.model.eval()
        self.model.head.settle(self.final_logits)
        return Trained(self.model.cpu().eval(), self.history, self.best_epoch, self.device.type, self.note)

    @torch.inference_mode()
    def final_logits(self) -> Iterator[tuple[torch.Tensor, Targets]]:
        """Of the held-out rows, or where none are, of those trained on."""
        self.batches.set_epoch(0)  # one order of rows, whether this run trained the epochs or found them done
        for batch in self.batches if self.held_out is None else self.held_out:
            moved = batch.to(self.device)
            yield self.model(moved), moved.targets

    def is_done(self) -> bool:
        trained = len(self.history)
        return trained >= self.options.epochs or (
            self.held_out is not None and trained - self.best_epoch >= self.options.patience and trained > 0
        )

    def train_epoch(self, epoch: int) -> None:
        """One pass over the rows, then validation and a checkpoint."""
        began = told = time.monotonic()
        self.model.train()
        self.batches.set_epoch(epoch - 1)
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        rows = 0
        for batch in self.batches:
            loss = self.loss_of(batch.to(self.device))
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            self.optimiser.step()
            total += loss.detach() * batch.n_rows
            rows += batch.n_rows
            now = time.monotonic()
            if self.progress is not None and now - told > EVERY_SECONDS:
                told = now
                still = (self.options.epochs - epoch + 1) * self.n_rows - rows
                self.progress(self.state(epoch, rows, float(total) / rows, still * (now - began) / rows))
        entry: dict[str, Any] = {"epoch": epoch, "loss": float(total) / rows}
        if not np.isfinite(entry["loss"]):
            raise DataError(
                f"the loss is {entry['loss']}", where=f"epoch {epoch} of a {self.options.layer} head",
                why="training diverged", fix="a smaller learning_rate",
            )  # fmt: skip
        if self.held_out is not None:
            entry |= self.validate()
        self.history.append(entry)
        improved = self.is_better(entry)
        if improved:
            self.best_epoch = epoch
            self.best = {name: part.detach().clone() for name, part in self.model.state_dict().items()}
        self.save(epoch, improved)
        if self.progress is not None:
            left = (self.options.epochs - epoch) * (time.monotonic() - began)
            self.progress(self.state(epoch, rows, entry["loss"], 0.0 if self.is_done() else left))

    def state(self, epoch: int, rows: int, loss: float, seconds_left: float) -> Epoch:
        return Epoch(epoch, self.options.epochs, rows, self.n_rows, loss, seconds_left)

    def loss_of(self, batch: Batch) -> torch.Tensor:
        """The head's loss; on CUDA the products in bfloat16 if wanted, the loss itself in float32."""
        if self.device.type != "cuda" or not self.options.mixed_precision:
            return self.model.head.loss(self.model(batch), batch.targets)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = self.model(batch)
        return self.model.head.loss(logits.float(), batch.targets)

    @torch.inference_mode()
    def validate(self) -> dict[str, float]:
        """Loss and nDCG@5 of the held-out rows."""
        assert self.held_out is not None
        self.model.eval()
        total, rows = 0.0, 0
        found, labels, offsets, true = [], [], [np.zeros(1, np.int64)], []
        for batch in self.held_out:
            moved = batch.to(self.device)
            logits = self.model(moved)
            total += float(self.model.head.loss(logits, moved.targets)) * batch.n_rows
            best = rank(logits.float().cpu().numpy(), TOP, threads=1).labels
            labels.append(best)
            found.append(np.broadcast_to(np.arange(best.shape[1], 0, -1, dtype=np.float32), best.shape))
            offsets.append(batch.targets.offsets[1:].numpy() + offsets[-1][-1])
            true.append(batch.targets.labels.numpy())
            rows += batch.n_rows
        n_labels = self.batches.n_labels
        entries = np.concatenate(true)
        truth = sp.csr_matrix((np.ones(len(entries), np.float32), entries, np.concatenate(offsets)), (rows, n_labels))
        scores = as_matrix(np.concatenate(labels), np.concatenate(found), n_labels)
        ndcg = measure(scores, truth, TOP, threads=1).ndcg[-1]
        return {"validation_loss": total / rows, "validation_ndcg": float(ndcg)}

    def is_better(self, entry: dict[str, Any]) -> bool:
        """Is this epoch the one to keep? Without held-out rows it is always the last."""
        if self.held_out is None or not self.best_epoch:
            return True
        best = self.history[self.best_epoch - 1]
        if self.options.criterion == "ndcg":
            return entry["validation_ndcg"] > best["validation_ndcg"]
        return entry["validation_loss"] < best["validation_loss"]

    def save(self, epoch: int, improved: bool) -> None:
        if self.checkpoint is None:
            return
        tensors = {f"model.{name}": part for name, part in self.model.state_dict().items()}
        for number, state in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{number}.{name}": part for name, part in state.items()}
        tensors["random"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["random_cuda"] = torch.cuda.get_rng_state(self.device)
        facts: Facts = {"history": self.history, "best_epoch": self.best_epoch}
        self.checkpoint.write(epoch, facts, tensors, self.best if improved else None)

    def resume(self) -> None:
        """Go on after the last finished epoch, if there is one."""
        assert self.checkpoint is not None
        saved = self.checkpoint.read()
        if saved is None:
            return
        own: dict[str, torch.Tensor] = {}
        states: dict[int, dict[str, torch.Tensor]] = {}
        for name, tensor in saved.last.items():
            kind, _, rest = name.partition(".")
            if kind == "model":
                own[rest] = tensor
            elif kind == "optimiser":
                number, _, part = rest.partition(".")
                states.setdefault(int(number), {})[part] = tensor
        self.model.load_state_dict(saved.best)  # fits, too
        self.model.load_state_dict(own)
        self.optimiser.load_state_dict({"state": states, "param_groups": self.optimiser.state_dict()["param_groups"]})
        torch.set_rng_state(saved.last["random"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(saved.last["random_cuda"], self.device)
        self.history, self.best_epoch, self.best = list(saved.facts["history"]), saved.facts["best_epoch"], saved.best


def make_optimiser(model: HeadModel, options: TrainOptions) -> torch.optim.AdamW:
    """AdamW over matrices, which decay, and vectors, which do not."""
    trained = [part for part in model.parameters() if part.requires_grad]
    groups = [
        {"params": [part for part in trained if part.ndim > 1], "weight_decay": options.weight_decay},
        {"params": [part for part in trained if part.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=options.learning_rate, fused=True)  # ten times faster than the loop on a CPU


def choose_device(name: str) -> torch.device:
    """cpu, or cuda once it has really computed something. Raises BackendError for a `cuda` that cannot be used."""
    if name == "cpu":
        return torch.device("cpu")
    why = "PyTorch sees no CUDA device"
    if torch.cuda.is_available():
        try:
            if float((torch.ones(8, 8, device="cuda") @ torch.ones(8, device="cuda")).sum()) == 64.0:
                return torch.device("cuda")
            why = "the device computes wrong results"
        except RuntimeError as error:
            why = str(error).splitlines()[0]
    if name == "cuda":
        raise BackendError("`device: cuda` was asked for, but cannot be used here", why=why, fix="device auto or cpu")
    return torch.device("cpu")


@contextlib.contextmanager
def fixed_threads(threads: int) -> Iterator[None]:
    """So many threads for PyTorch's operations, and as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
