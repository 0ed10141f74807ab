"""One training run: its model, optimiser, batches, history and checkpoints.

Holds no choice of device and threads (`training`), no layer, no loss and no reading of rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from xpipe.errors import DataError
from xpipe.formats.parquet import read_about
from xpipe.ground import seeding
from xpipe.heads.batch import Batch
from xpipe.heads.batches import ParquetBatches
from xpipe.heads.checkpoint import Checkpoint
from xpipe.heads.encoder import SparseEncoder
from xpipe.heads.model import HeadModel
from xpipe.heads.options import TrainOptions
from xpipe.heads.packing import UNBUILDABLE
from xpipe.heads.storing import make_head
from xpipe.heads.targets import Targets
from xpipe.heads.validation import validate

EVERY_SECONDS = 1.0  # between two calls of `progress` within an epoch


class Progress(NamedTuple):
    """How far training is.

    epoch: the present one, from 1, of at most `epochs`. rows: trained rows of this epoch, of `of_rows`. loss: its mean
    over these rows. seconds_left: until all `epochs` are trained, if training does not stop early.
    """

    epoch: int
    epochs: int
    rows: int
    of_rows: int
    loss: float
    seconds_left: float


@dataclass
class Trained:
    """A trained model, and how it came about.

    Attributes
    ----------
    model : HeadModel
        The model of the best epoch, on the CPU, in evaluation mode.
    history : list of dict
        The figures of each epoch: epoch, loss, validation_loss, validation_ndcg.
    best_epoch : int
        The number of the best epoch, from 1.
    device : str
        Where it was trained.
    note : str
        Why training began anew although there was a checkpoint; empty where it did not.
    """

    model: HeadModel
    history: list[Any]
    best_epoch: int
    device: str
    note: str = ""


class TrainingRun:
    """One training run: its model, optimiser, batches and history.

    calibrates_from: given for a model that only calibrates another one. Its held-out rows begin at this share of all
    rows and choose no epoch: the last one is kept.
    """

    def __init__(
        self,
        folder: str,
        options: TrainOptions,
        checkpoint: str | None,
        progress: Callable[[Progress], None] | None,
        device: torch.device,
        calibrates_from: float | None = None,
    ):
        self.chooses = options.validation > 0 and calibrates_from is None
        self.folder, self.options, self.device, self.progress = folder, options, device, progress
        shared: dict[str, Any] = {"batch_size": options.batch_size, "seed": options.seed}
        shared |= {"validation": options.validation, "held_out_from": calibrates_from or 0.0}
        shared |= {"pinned": device.type == "cuda"}
        self.batches = ParquetBatches(folder, **shared)
        self.held_out = None
        if options.validation:
            self.held_out = ParquetBatches(folder, role="validation", shuffle=False, **shared)
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
            except (DataError, *UNBUILDABLE) as error:  # UNBUILDABLE: tensors of another model or library
                self.note = f"the checkpoint is damaged, training began anew: {error}"
                self.start()

    def start(self) -> None:
        """Make a new model, the same one each time."""
        options = self.options
        torch.manual_seed(int(seeding.bit_generator(options.seed, "head").random_raw() >> np.uint64(1)))
        encoder = SparseEncoder(
            self.batches.n_features, options.width, options.hidden,
            normalize=options.normalize, dropout=options.dropout,
        )  # fmt: skip
        head = make_head(options.layer, in_dim=encoder.out_dim, n_labels=self.batches.n_labels, **options.head)
        self.model = HeadModel(encoder, head).to(self.device)
        self.optimiser = make_optimiser(self.model, options)
        self.history: list[Any] = []
        self.best_epoch = 0
        self.best: dict[str, torch.Tensor] = {}

    def train(self) -> None:
        """Train until the run is done; the model is that of the best epoch then."""
        while not self.is_done():
            self.train_epoch(len(self.history) + 1)
        self.model.load_state_dict(self.best)
        self.model.eval()
        self.model.head.settle(self.final_logits)

    def trained(self) -> Trained:
        """What the run has come to, once it is done; the model moves to the CPU."""
        return Trained(self.model.cpu().eval(), self.history, self.best_epoch, self.device.type, self.note)

    @torch.inference_mode()
    def final_logits(self) -> Iterator[tuple[torch.Tensor, Targets]]:
        """(logits, targets) of the held-out rows; of the trained rows where none are held out."""
        self.batches.set_epoch(0)  # the same order of rows, whether this run trained the epochs or found them done
        for batch in self.batches if self.held_out is None else self.held_out:
            moved = batch.to(self.device)
            yield self.model(moved), moved.targets

    def is_done(self) -> bool:
        """Whether all epochs are trained, or the criterion has not improved for `patience` epochs."""
        trained = len(self.history)
        return trained >= self.options.epochs or (
            self.chooses and trained - self.best_epoch >= self.options.patience and trained > 0
        )

    def train_epoch(self, epoch: int) -> None:
        """One pass over the rows, then validation and a checkpoint."""
        began = time.monotonic()
        entry: dict[str, Any] = {"epoch": epoch, "loss": self.train_rows(epoch, began)}
        if not np.isfinite(entry["loss"]):
            raise DataError(
                f"the loss is {entry['loss']}", where=f"epoch {epoch} of a {self.options.layer} head",
                why="training diverged", fix="a smaller learning_rate",
            )  # fmt: skip
        if self.chooses and self.held_out is not None:
            entry |= validate(self.model, self.held_out)
        self.history.append(entry)
        improved = self.is_better(entry)
        if improved:
            self.best_epoch = epoch
            self.best = {name: part.detach().clone() for name, part in self.model.state_dict().items()}
        self.save(epoch, improved)
        left = (self.options.epochs - epoch) * (time.monotonic() - began)
        self.tell(epoch, self.n_rows, entry["loss"], 0.0 if self.is_done() else left)

    def train_rows(self, epoch: int, began: float) -> float:
        """Train one pass over the rows. Returns the mean loss.

        The loss stays on the device until the end, or until `progress` is told: reading it waits for the device.
        """
        self.model.train()
        self.batches.set_epoch(epoch - 1)
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        rows, told = 0, began
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
                self.tell(epoch, rows, float(total) / rows, still * (now - began) / rows)
        return float(total) / rows

    def tell(self, epoch: int, rows: int, loss: float, seconds_left: float) -> None:
        """Call `progress`, if it was given."""
        if self.progress is not None:
            self.progress(Progress(epoch, self.options.epochs, rows, self.n_rows, loss, seconds_left))

    def loss_of(self, batch: Batch) -> torch.Tensor:
        """The head's loss. With mixed precision on CUDA, products are in bfloat16, the loss in float32."""
        if self.device.type != "cuda" or not self.options.mixed_precision:
            return self.model.head.loss(self.model(batch), batch.targets)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = self.model(batch)
        return self.model.head.loss(logits.float(), batch.targets)

    def is_better(self, entry: dict[str, Any]) -> bool:
        """Whether this epoch is better than the best so far. Where no rows choose, it always is."""
        if not self.chooses or not self.best_epoch:
            return True
        best = self.history[self.best_epoch - 1]
        if self.options.criterion == "ndcg":
            return bool(entry["validation_ndcg"] > best["validation_ndcg"])
        return bool(entry["validation_loss"] < best["validation_loss"])

    def save(self, epoch: int, improved: bool) -> None:
        """Write a checkpoint, if the run has a folder for it."""
        if self.checkpoint is None:
            return
        tensors = {f"model.{name}": part for name, part in self.model.state_dict().items()}
        for number, state in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{number}.{name}": part for name, part in state.items()}
        tensors["random"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["random_cuda"] = torch.cuda.get_rng_state(self.device)
        self.checkpoint.write(
            epoch, {"history": self.history, "best_epoch": self.best_epoch}, tensors, self.best if improved else None
        )

    def resume(self) -> None:
        """Continue after the last finished epoch of the checkpoint, if there is one."""
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
        self.model.load_state_dict(saved.best)  # raises unless it fits
        self.model.load_state_dict(own)
        self.optimiser.load_state_dict({"state": states, "param_groups": self.optimiser.state_dict()["param_groups"]})
        torch.set_rng_state(saved.last["random"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(saved.last["random_cuda"], self.device)
        self.history, self.best_epoch, self.best = list(saved.log["history"]), saved.log["best_epoch"], saved.best


def make_optimiser(model: HeadModel, options: TrainOptions) -> torch.optim.AdamW:
    """AdamW with weight decay for matrices, without it for vectors."""
    trained = [part for part in model.parameters() if part.requires_grad]
    groups = [
        {"params": [part for part in trained if part.ndim > 1], "weight_decay": options.weight_decay},
        {"params": [part for part in trained if part.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=options.learning_rate, fused=True)  # ten times faster than the loop on a CPU
