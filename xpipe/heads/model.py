"""An encoder with a head behind it: logits, predictions, files.

Holds no training. A saved model is a folder with two files: `model.safetensors` (encoder and head, with their options
and the calibration in the metadata) and `weights.safetensors` (`W` and, if the head has one, `bias`: the output layer,
for `verify`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Literal, NamedTuple, NotRequired

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn
from typing_extensions import TypedDict

from xpipe.errors import ConfigError, DataError
from xpipe.ground import files
from xpipe.ground.calibration_map import CalibrationMap
from xpipe.ground.safetensors_header import read_header
from xpipe.ground.sparse import canonical
from xpipe.heads.batch import Batch
from xpipe.heads.encoder import SparseEncoder
from xpipe.heads.head import Head
from xpipe.heads.packing import build, pack, read_packed
from xpipe.heads.storing import HeadAbout, make_head
from xpipe.metrics.predictions import rank

MODEL, WEIGHTS = "model.safetensors", "weights.safetensors"
KEY = "xpipe"  # of the metadata
MODEL_FORMAT = 3
WEIGHTS_FORMAT = 2
READABLE = (1, 2, 3)  # 1: without a digest; 1, 2: without calibration


class Knots(TypedDict):
    """The arguments of a `CalibrationMap`."""

    scores: list[float]
    probabilities: list[float]


class About(TypedDict):
    """The metadata of a model; `weights.safetensors` has only the format."""

    format: int
    calibration: NotRequired[Knots]
    encoder: NotRequired[dict[str, Any]]
    head: NotRequired[HeadAbout]


class RankedLabels(NamedTuple):
    """The best labels of each row, int32 [rows, k], -1 for none, with their logits and probabilities, float32.

    Probabilities are calibrated where the model has a calibration.
    """

    labels: np.ndarray
    logits: np.ndarray
    probabilities: np.ndarray


class HeadModel(nn.Module):
    """An encoder of sparse rows with a head behind it.

    Parameters
    ----------
    encoder : SparseEncoder
        Batch to float [batch, out_dim].
    head : Head
        float [batch, in_dim] to logits [batch, n_labels]; its `in_dim` is the encoder's `out_dim`.

    Attributes
    ----------
    calibration : CalibrationMap or None
        From the head's own probabilities to those that `predict` gives; None where they stay as they are.

    Raises
    ------
    ConfigError
        If the sizes do not fit.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from xpipe.heads import HeadModel, SparseEncoder, make_head, matrix_batches
    >>> encoder = SparseEncoder(n_features=5, width=8)
    >>> model = HeadModel(encoder, make_head("bsl", in_dim=encoder.out_dim, n_labels=20, dim=4))
    >>> model.predict(matrix_batches(sp.eye(3, 5, format="csr")), k=2).shape
    (3, 20)
    """

    def __init__(self, encoder: SparseEncoder, head: Head):
        super().__init__()
        if head.in_dim != encoder.out_dim:
            raise ConfigError(f"the head takes {head.in_dim} inputs, the encoder gives {encoder.out_dim}")
        self.encoder, self.head = encoder, head
        self.calibration: CalibrationMap | None = None

    def forward(self, batch: Batch) -> torch.Tensor:
        """Logits, float [batch, n_labels]."""
        found: torch.Tensor = self.head(self.encoder(batch))
        return found

    @property
    def device(self) -> torch.device:
        return self.encoder.bias.device

    def parameter_counts(self) -> dict[str, int]:
        """Numbers of trainable parameters: of the head, and of the whole model."""
        head = sum(part.numel() for part in self.head.parameters() if part.requires_grad)
        return {"head": head, "all": sum(part.numel() for part in self.parameters() if part.requires_grad)}

    @torch.inference_mode()
    def rank(self, batches: Iterable[Batch], k: int = 5, *, calibrated: bool = True) -> RankedLabels:
        """The k labels with the highest logits of each row, in the order of the batches. Ties: smaller label first.

        Batches must not be shuffled: `matrix_batches(X)` or `ParquetBatches(folder, "test", shuffle=False)`.
        calibrated: False gives the head's own probabilities.
        """
        was_training = self.training
        self.eval()
        labels, logits, chances = [], [], []
        for batch in batches:
            encoded = self.encoder(batch.to(self.device))
            scores = self.head(encoded).float()
            best = rank(scores.cpu().numpy(), k, threads=1).labels
            places = torch.from_numpy(np.maximum(best, 0).astype(np.int64)).to(scores.device)
            labels.append(best)
            logits.append(scores.gather(1, places).cpu().numpy())
            chances.append(self.head.probabilities(encoded).float().gather(1, places).cpu().numpy())
        self.train(was_training)
        if not labels:
            none = np.zeros((0, 1), np.float32)
            return RankedLabels(none.astype(np.int32), none, none)
        found = RankedLabels(np.concatenate(labels), np.concatenate(logits), np.concatenate(chances))
        if self.calibration is None or not calibrated:
            return found
        n_rows, width = found.labels.shape
        pointers = np.arange(n_rows + 1) * width
        mapped = self.calibration.apply_rows(pointers, found.probabilities.ravel(), found.logits.ravel())
        return found._replace(probabilities=mapped.reshape(n_rows, width))

    def predict(
        self, batches: Iterable[Batch], k: int = 5, *, values: Literal["probabilities", "logits"] = "probabilities"
    ) -> sp.csr_matrix:
        """The labels of `rank` as a CSR matrix, rows x labels, float32.

        values: the numbers to store. Probabilities are calibrated where the model has a calibration. Those of the head
        itself that round to 0 or 1 are equal where logits are not.
        """
        if values not in ("probabilities", "logits"):
            raise ConfigError(f"`values` must be probabilities or logits, got {values!r}")
        found = self.rank(batches, k)
        return as_matrix(found.labels, getattr(found, values), self.head.n_labels)

    def save(self, folder: str) -> list[str]:
        """Write the model's files and return their names. The same model gives the same bytes."""
        about: dict[str, Any] = {"format": MODEL_FORMAT, "encoder": self.encoder.options(), "head": self.head.about()}
        if self.calibration is not None:
            about["calibration"] = asdict(self.calibration)
        files.write_bytes(files.join(folder, MODEL), pack(self.state_dict(), about, KEY))
        W, bias = self.head.weights()
        arrays = {"W": W} if bias is None else {"W": W, "bias": bias}
        tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
        files.write_bytes(files.join(folder, WEIGHTS), pack(tensors, {"format": WEIGHTS_FORMAT}, KEY))
        return [MODEL, WEIGHTS]

    @classmethod
    def load(cls, folder: str) -> HeadModel:
        """Load a saved model, on the CPU. Raises DataError if it is missing, damaged or of another kind."""
        path = files.join(folder, MODEL)
        tensors, about = read_packed(path, KEY, About)
        if about["format"] not in READABLE or not {"encoder", "head"} <= about.keys():
            raise DataError("not a model of this version", where=path, why=f"format {about['format']!r}")
        head = about["head"]

        def make() -> HeadModel:
            made = make_head(head["layer"], in_dim=head["in_dim"], n_labels=head["n_labels"], **head["options"])
            return cls(SparseEncoder(**about["encoder"]), made)

        _check_weights(files.join(folder, WEIGHTS), head["n_labels"])
        model = build(make, tensors, path)
        model.load_state_dict(tensors)
        if (knots := about.get("calibration")) is not None:
            model.calibration = CalibrationMap(tuple(knots["scores"]), tuple(knots["probabilities"]))
        return model.eval()


def _check_weights(path: str, n_labels: int) -> None:
    """Raise DataError unless the weights beside the model have its number of labels.

    The tensors of a DFT head without slack do not say how many labels there are.
    """
    if not files.exists(path):
        return
    with files.open_read(path) as stream:
        found = read_header(stream, files.size(path), where=path, fix="save the model again").tensors
    if "W" not in found or found["W"].shape[:1] != (n_labels,):
        why = f"the model has {n_labels:,} labels, W the shape {list(found['W'].shape) if 'W' in found else 'of none'}"
        raise DataError("the weights beside the model are not its own", where=path, why=why, fix="save the model again")


def as_matrix(labels: np.ndarray, values: np.ndarray, n_labels: int) -> sp.csr_matrix:
    """Ranked labels [rows, k], -1 for none, with their values as a CSR matrix."""
    rows, places = np.nonzero(labels >= 0)
    entries = values[rows, places].astype(np.float32), (rows, labels[rows, places])
    return canonical(sp.csr_matrix(entries, shape=(len(labels), n_labels)), "predictions")
