"""What makes a class an estimator for scikit-learn: parameters, their change, a repr, and tags.

Holds no algorithm, and imports scikit-learn only where scikit-learn asks.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any, Self

from xpipe.errors import ConfigError, ParameterError
from xpipe.ground.close_match import did_you_mean

OTHER_KINDS = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


class Estimator:
    """A class whose constructor has explicit parameters and keeps each as an attribute of the same name.

    It works in scikit-learn's `clone`, `Pipeline`, `cross_val_score` and `GridSearchCV` without being derived from its
    classes. The constructor raises ConfigError for a wrong parameter.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters: an estimator made with them is the same.

        Parameters
        ----------
        deep : bool
            Of no effect: no parameter is an estimator.

        Returns
        -------
        dict
            Names and values.
        """
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **params: Any) -> Self:
        """Change some parameters. What was fitted before stays until the next `fit`.

        Parameters
        ----------
        **params
            Names and values.

        Returns
        -------
        Estimator
            Itself.

        Raises
        ------
        ParameterError
            There is no such parameter, or it is out of range. Nothing is changed then. It is a ConfigError and a
            ValueError.
        """
        params = self._own_names(params)
        known = self._defaults()
        for name in params:
            if name not in known:
                hint = did_you_mean(name, known) or ", ".join(known)
                raise ParameterError(f"{type(self).__name__} has no parameter `{name}`", fix=hint)
        try:
            changed = type(self)(**{**self.get_params(), **params})
        except ConfigError as error:
            raise ParameterError(error.what, where=error.where, why=error.why, fix=error.fix) from error
        for name in params:
            setattr(self, name, getattr(changed, name))
        return self

    def __repr__(self) -> str:
        """The call that makes the same estimator, without parameters that have their defaults."""
        defaults = self._defaults()
        given = [f"{name}={value!r}" for name, value in self.get_params().items() if not _same(value, defaults[name])]
        return f"{type(self).__name__}({', '.join(given)})"

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn (1.6 or newer) that rows may be sparse and that every row has several labels."""
        from sklearn.utils import InputTags, Tags, TargetTags

        target = TargetTags(required=True, one_d_labels=True, two_d_labels=True, multi_output=True)
        return Tags(estimator_type=None, target_tags=target, input_tags=InputTags(sparse=True))

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """The default of each parameter of the constructor."""
        parameters = inspect.signature(cls).parameters.values()
        return {found.name: found.default for found in parameters if found.kind not in OTHER_KINDS}

    def _own_names(self, params: dict[str, Any]) -> dict[str, Any]:
        """Parameters under the names of the constructor; for classes that understand other names too."""
        return params


def not_fitted(what: str) -> ConfigError:
    """The error about an estimator that is not fitted; scikit-learn's NotFittedError too, where that is loaded."""
    fix = "call fit first, or load one"
    if "sklearn.exceptions" not in sys.modules:
        return ConfigError(what, fix=fix)
    from xpipe.ground.sklearn_errors import NotFitted

    return NotFitted(what, fix=fix)


def _same(value: Any, default: Any) -> bool:
    """Whether a value is the default; what cannot be compared is another value."""
    try:
        return type(value) is type(default) and bool(value == default)
    except (TypeError, ValueError):
        return False
