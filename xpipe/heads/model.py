"""An encoder with a head behind it: logits, predictions, files.

Holds no training. A saved model is a folder: `model.safetensors` (encoder and head, with what rebuilds them in its
metadata) and `weights.safetensors` (arrays `W` and, where there is one, `bias`: the linear output layer, to verify).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from xpipe import files, heads
from xpipe.errors import ConfigError, DataError
from xpipe.heads.batches import Batch
from xpipe.heads.encoder import SparseEncoder
from xpipe.metrics.predictions import rank
from xpipe.sparse import canonical

MODEL, WEIGHTS = "model.safetensors", "weights.safetensors"
MODEL_FORMAT = 1


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
        files.write_bytes(files.join(folder, MODEL), pack(self.state_dict(), about))
        W, bias = self.head.weights()
        arrays = {"W": W} if bias is None else {"W": W, "bias": bias}
        tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
        files.write_bytes(files.join(folder, WEIGHTS), pack(tensors, {"format": MODEL_FORMAT}))
        return [MODEL, WEIGHTS]

    @classmethod
    def load(cls, folder: str) -> HeadModel:
        """A saved model, on the CPU. Raises DataError where it is missing, damaged or of another kind."""
        path = files.join(folder, MODEL)
        tensors, about = read_packed(path)
        if about.get("format") != MODEL_FORMAT or not {"encoder", "head"} <= about.keys():
            raise DataError("not a model of this version", where=path, why=f"format {about.get('format')!r}")
        head = about["head"]
        try:
            made = heads.make_head(head["layer"], in_dim=head["in_dim"], n_labels=head["n_labels"], **head["options"])
            model = cls(SparseEncoder(**about["encoder"]), made)
            model.load_state_dict(tensors)
        except (KeyError, TypeError, RuntimeError) as error:
            raise DataError("not a whole model", where=path, why=str(error), fix="train it again") from error
        return model.eval()


def as_matrix(labels: np.ndarray, values: np.ndarray, n_labels: int) -> sp.csr_matrix:
    """Ranked labels [rows, k] (-1: none) with their values as a CSR matrix."""
    rows, places = np.nonzero(labels >= 0)
    entries = values[rows, places].astype(np.float32), (rows, labels[rows, places])
    return canonical(sp.csr_matrix(entries, shape=(len(labels), n_labels)), "predictions")


def pack(tensors: dict[str, torch.Tensor], about: dict) -> bytes:
    """Tensors as safetensors with facts in its metadata: under one key, since the order of several is not fixed."""
    from safetensors.torch import save

    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    return save(plain, {"xpipe": json.dumps(about, sort_keys=True)})


def read_packed(path: str) -> tuple[dict[str, torch.Tensor], dict]:
    """What `pack` made. Raises DataError where the file is missing, damaged or without such facts."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    if not files.exists(path):
        raise DataError("there is no such file", where=path)
    content = files.read_bytes(path)
    try:
        tensors = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        about = json.loads(header["__metadata__"]["xpipe"])
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise DataError("not a safetensors file of xpipe", where=path, why=str(error)) from error
    return tensors, about
