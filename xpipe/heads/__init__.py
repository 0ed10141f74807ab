"""Output layers for PyTorch and their training: BSL, DFT, LML, quasibinary, softmax, binary, MIML, and their losses.

Holds nothing of its own: the names that `__init__.pyi` lists are imported on first use, so that `import xpipe.heads`
needs no PyTorch. Every head takes float [batch, in_dim] behind any encoder:

    head = DFT(in_dim=300, n_labels=3993, k=25, slack=50)
    logits = head(x)                                        # [batch, n_labels]
    head.loss(logits, Targets.of([[3, 17], []])).backward()  # label sets as index lists
    W, bias = head.weights()                                 # what xpipe.argmaxability.verify takes
    head.save("head.safetensors");  head = load_head("head.safetensors")
"""

from __future__ import annotations

from typing import Any

from xpipe.errors import ConfigError
from xpipe.ground.lazy import public_names

_public_name, __dir__, __all__ = public_names(__name__, __file__)


def __getattr__(name: str) -> Any:
    """A public name. Raises ConfigError where PyTorch is not installed."""
    try:
        return _public_name(name)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "safetensors"):
            raise
        raise ConfigError(
            "heads need PyTorch", why=f"{error.name} is not installed", fix="pip install 'xpipe[heads]'"
        ) from error
