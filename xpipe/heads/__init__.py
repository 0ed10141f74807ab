"""Output layers for PyTorch that can say what labels need: BSL, DFT, LML, quasibinary, MIML, their losses and training.

Holds nothing of its own: public names are imported on first use, so that `import xpipe.heads` is instant and needs no
PyTorch. Every head takes float [batch, in_dim] behind any encoder:

    head = DFT(in_dim=300, n_labels=3993, k=25, slack=50)
    logits = head(x)                                        # [batch, n_labels]
    head.loss(logits, Targets.of([[3, 17], []])).backward()  # label sets as index lists
    W, bias = head.weights()                                 # what xpipe.argmaxability.verify takes
    head.save("head.safetensors");  head = load_head("head.safetensors")
"""

from __future__ import annotations

from typing import Any

from xpipe.errors import ConfigError
from xpipe.ground.lazy import public_name

PUBLIC = {
    "Targets": "targets",
    "BSL": "bsl",
    "DFT": "dft",
    "LML": "lml",
    "lml_projection": "lml",
    "Binary": "linear",
    "Softmax": "linear",
    "Quasibinary": "linear",
    "LMLHead": "linear",
    "DeepMIML": "miml",
    "CoAttentionMIML": "miml",
    "bce_loss": "losses",
    "softmax_loss": "losses",
    "topk_entropy_loss": "losses",
    "lml_loss": "losses",
    "quasibinary_loss": "losses",
    "make_head": "storing",
    "load_head": "storing",
    "ParquetBatches": "batches",
    "Batch": "batches",
    "matrix_batches": "batches",
    "SparseEncoder": "encoder",
    "HeadModel": "model",
    "TrainOptions": "options",
    "train_head": "training",
}


def __getattr__(name: str) -> Any:
    try:
        return public_name(__name__, PUBLIC, name)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "safetensors"):
            raise
        raise ConfigError(
            "heads need PyTorch", why=f"{error.name} is not installed", fix="pip install 'xpipe[heads]'"
        ) from error


def __dir__() -> list[str]:
    return sorted([*globals(), *PUBLIC])
