"""The error about an estimator that is not fitted, as scikit-learn knows it. Needs scikit-learn.

Holds nothing else: `estimator.not_fitted` imports this where scikit-learn is loaded already.
"""

from __future__ import annotations

from sklearn.exceptions import NotFittedError

from xpipe.errors import ConfigError


class NotFitted(ConfigError, NotFittedError):  # type: ignore[misc]  # scikit-learn has no types
    """An estimator is used before it is fitted: a ConfigError, and scikit-learn's NotFittedError."""
