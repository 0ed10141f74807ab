"""An encoder with a head behind it: logits, predictions, files.

Holds no training. A saved model is a folder: `model.safetensors` (encoder and head, with what rebuilds them in its
metadata) and `weights.safetensors` (arrays `W` and, where there is one, `bias`: the linear output layer, to verify).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, NotRequired

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn
from typing_extensions import TypedDict

from xpipe import heads
from xpipe.errors import ConfigError, DataError
from xpipe.ground import files
from xpipe.ground.safetensors_header import read_header
from xpipe.ground.sparse import canonical
from xpipe.heads.batches import Batch
from xpipe.heads.encoder import SparseEncoder
from xpipe.heads.packing import build, pack, read_packed
from xpipe.heads.storing import HeadAbout
from xpipe.metrics.predictions import rank

MODEL, WEIGHTS = "model.safetensors", "weights.safetensors"
KEY = "xpipe"  # of the metadata
MODEL_FORMAT = 2
READABLE = (1, 2)  # 1: without a digest


class About(TypedDict):
    """What the metadata of a model say; `weights.safetensors` has the format alone."""

    format: int
    encoder: NotRequired[dict[str, Any]]
    head: NotRequired[HeadAbout]


class Ranked(NamedTuple):
    """The best labels of rows, int32 [rows, k], -1 where there is none, with their logits and probabilities."""

    labels: np.ndarray
    logits: np.ndarray
    probabilities: np.ndarray


class HeadModel(nn.Module):
    """encoder: batch -> float [B, out_dim]; head: float [B, in_dim = out_dim] -> logits [B, n_labels]."""

    def __init__(self, encoder: SparseEncoder, head: Any):
        super().__init__()
        if head.in_dim != encoder.out_dim:
            raise ConfigError(f"the head takes {head.in_dim} inputs, the encoder gives {encoder.out_dim}")
        self.encoder, self.head = encoder, head

    def forward(self, batch: Batch) -> torch.Tensor:
        """Logits float [B, n_labels]."""
        return self.head(self.encoder(batch))

    @property
    def device(self) -> torch.device:
        return self.encoder.bias.device

    def parameter_counts(self) -> dict[str, int]:
        """Trainable parameters of the head and in all."""
        head = sum(part.numel() for part in self.head.parameters() if part.requires_grad)
        return {"head": head, "all": sum(part.numel() for part in self.parameters() if part.requires_grad)}

    @torch.inference_mode()
    def rank(self, batches: Iterable[Batch], k: int = 5) -> Ranked:
        """The k labels with the highest logits of every row, in the order of the batches; equal logits: smaller label.

        Give batches without shuffling: `matrix_batches(X)` or `ParquetBatches(folder, "test", shuffle=False)`.
        """
        was_training = self.training
        self.eval()
        labels, logits, chances = [], [], []
        for batch in batches:
            encoded = self.encoder(batch.to(self.device))
            found = self.head(encoded).float()
            best = rank(found.cpu().numpy(), k, threads=1).labels
            places = torch.from_numpy(np.maximum(best, 0).astype(np.int64)).to(found.device)
            labels.append(best)
            logits.append(found.gather(1, places).cpu().numpy())
            chances.append(self.head.probabilities(encoded).float().gather(1, places).cpu().numpy())
        self.train(was_training)
        if not labels:
            none = np.zeros((0, 1), np.float32)
            return Ranked(none.astype(np.int32), none, none)
        return Ranked(np.concatenate(labels), np.concatenate(logits), np.concatenate(chances))

    def predict(
        self, batches: Iterable[Batch], k: int = 5, *, values: Literal["probabilities", "logits"] = "probabilities"
    ) -> sp.csr_matrix:
        """The labels of `rank` as CSR, rows x labels.

        values: what to store of them; probabilities of 0 and 1 can be equal where logits are not.
        """
        if values not in ("probabilities", "logits"):
            raise ConfigError(f"`values` must be probabilities or logits, got {values!r}")
        found = self.rank(batches, k)
        return as_matrix(found.labels, getattr(found, values), self.head.n_labels)

    def save(self, folder: str) -> list[str]:
        """Write the model's files; gives their names. The same model gives the same bytes."""
        about = {
            "format": MODEL_FORMAT,
            "encoder": self.encoder.options(),
            "head": {
                "layer": self.head.layer, "in_dim": self.head.in_dim, "n_labels": self.head.n_labels,
                "options": self.head.options(),
            },
        }  # fmt: skip
        files.write_bytes(files.join(folder, MODEL), pack(self.state_dict(), about, KEY))
        W, bias = self.head.weights()
        arrays = {"W": W} if bias is None else {"W": W, "bias": bias}
        tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
        files.write_bytes(files.join(folder, WEIGHTS), pack(tensors, {"format": MODEL_FORMAT}, KEY))
        return [MODEL, WEIGHTS]

    @classmethod
    def load(cls, folder: str) -> HeadModel:
        """A saved model, on the CPU. Raises DataError where it is missing, damaged or of another kind."""
        path = files.join(folder, MODEL)
        tensors, about = read_packed(path, KEY, About)
        if about["format"] not in READABLE or not {"encoder", "head"} <= about.keys():
            raise DataError("not a model of this version", where=path, why=f"format {about['format']!r}")
        head = about["head"]

        def make() -> HeadModel:
            made = heads.make_head(head["layer"], in_dim=head["in_dim"], n_labels=head["n_labels"], **head["options"])
            return cls(SparseEncoder(**about["encoder"]), made)

        _check_weights(files.join(folder, WEIGHTS), head["n_labels"])
        model = build(make, tensors, path)
        model.load_state_dict(tensors)
        return model.eval()


def _check_weights(path: str, n_labels: int) -> None:
    """What lies beside the model has its labels: a DFT head's own tensors do not tell how many there are."""
    if not files.exists(path):
        return
    with files.open_read(path) as stream:
        found = read_header(stream, files.size(path), where=path, fix="save the model again").tensors
    if "W" not in found or found["W"].shape[:1] != (n_labels,):
        why = f"the model has {n_labels:,} labels, W the shape {list(found['W'].shape) if 'W' in found else 'of none'}"
        raise DataError("the weights beside the model are not its own", where=path, why=why, fix="save the model again")


def as_matrix(labels: np.ndarray, values: np.ndarray, n_labels: int) -> sp.csr_matrix:
    """Ranked labels [rows, k] (-1: none) with their values as a CSR matrix."""
    rows, places = np.nonzero(labels >= 0)
    entries = values[rows, places].astype(np.float32), (rows, labels[rows, places])
    return canonical(sp.csr_matrix(entries, shape=(len(labels), n_labels)), "predictions")
