"""GroupLabelImputer: `impute` as an estimator, from groups and labels as users have them.

Holds no method: `imputation` finds the owners.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from xpipe.eagle.imputation import Imputed, impute
from xpipe.eagle.options import ImputeOptions, Method, Owners
from xpipe.errors import DataError, InputError
from xpipe.ground.estimator import Estimator, not_fitted
from xpipe.ground.given_features import as_features, is_frame
from xpipe.ground.given_labels import GivenLabels, as_labels, label_matrix
from xpipe.grouping import membership_of_ids

NO_GROUP = (None, -1)  # ids of a sample in no group


class GroupLabelImputer(Estimator):
    """Find the labels of single samples from the labels of groups of samples.

    What it finds is of the samples it was fitted to, so there is no `transform` for others: train a `LabelTree` on it.

    Parameters
    ----------
    method, seed, steps, step_size, owners, ridge, threshold, rounds, rank
        As in `impute`.

    Raises
    ------
    ConfigError
        A parameter is out of range.

    Examples
    --------
    Two brands make soup; their products tell who owns the label:

    >>> from xpipe.eagle import GroupLabelImputer
    >>> X = [[1, 0], [0, 1], [1, 0], [-1, 0]]
    >>> imputer = GroupLabelImputer(method="eagle")
    >>> imputer.fit_transform(X, ["Mill", "Mill", "Pot", "Pot"], {"Mill": ["soup"], "Pot": ["soup"]}).toarray().tolist()
    [[1.0], [0.0], [1.0], [0.0]]
    >>> imputer.classes_.tolist(), imputer
    (['soup'], GroupLabelImputer(method='eagle'))
    """

    _imputed: Imputed | None = None
    _names: np.ndarray | None = None
    _n_features: int = 0

    def __init__(
        self,
        method: Method = ImputeOptions.method,
        *,
        seed: int = ImputeOptions.seed,
        steps: int = ImputeOptions.steps,
        step_size: float = ImputeOptions.step_size,
        owners: Owners = ImputeOptions.owners,
        ridge: float | None = ImputeOptions.ridge,
        threshold: float | None = ImputeOptions.threshold,
        rounds: int = ImputeOptions.rounds,
        rank: int | None = ImputeOptions.rank,
    ):
        self.method, self.seed, self.steps, self.step_size = method, seed, steps, step_size
        self.owners, self.ridge, self.threshold, self.rounds, self.rank = owners, ridge, threshold, rounds, rank
        ImputeOptions(**self.get_params()).check()

    def fit(self, X: Any, groups: Any, group_labels: Any, *, threads: int | None = None) -> GroupLabelImputer:
        """Find the owners of the labels of each group.

        Parameters
        ----------
        X : scipy sparse matrix or array, array_like or frame, of shape (n_samples, n_features)
            Features; rows of length 1 are expected, as `Vectorizer` gives them.
        groups : sequence of length n_samples, or matrix of shape (n_samples, n_groups)
            The group of each sample: names, or whole numbers from 0 on; None or -1 for a sample in no group. Or the
            membership Y1, where a sample may be in several groups.
        group_labels : mapping, sequence of lists, or matrix of shape (n_groups, n_labels)
            A mapping from group to its labels. Or a list of labels for each group: group 0, group 1, ... where groups
            are whole numbers, else in ascending order of their names. Or the matrix Y2.
        threads : int, optional
            By default one per usable core. It changes no byte.

        Returns
        -------
        GroupLabelImputer
            Itself.

        Raises
        ------
        DataError
            The data is wrong, or does not fit: a group has no labels in the mapping, or is beyond the lists.
        """
        X = as_features(X)
        members, labels = given_membership(groups, group_labels)
        self._imputed = impute(X, members, labels.matrix, **self.get_params(), threads=threads)
        self._names, self._n_features = labels.names, X.shape[1]
        return self

    def fit_transform(self, X: Any, groups: Any, group_labels: Any, *, threads: int | None = None) -> sp.csr_matrix:
        """`fit`, and the labels of the samples: `labels_`.

        Parameters
        ----------
        X, groups, group_labels, threads
            As in `fit`.

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n_samples, n_labels)
            1 where a sample owns a label. Columns are those of `classes_`.

        Raises
        ------
        DataError
            As in `fit`.
        """
        return self.fit(X, groups, group_labels, threads=threads).labels_

    @property
    def imputed_(self) -> Imputed:
        """All that `impute` returned. Raises ConfigError before `fit`."""
        if self._imputed is None:
            raise not_fitted("the imputer is not fitted")
        return self._imputed

    @property
    def labels_(self) -> sp.csr_matrix:
        """1 where a sample owns a label. Raises ConfigError before `fit`."""
        return self.imputed_.labels

    @property
    def scores_(self) -> sp.csr_matrix:
        """The chance or score of each label in `labels_`. Raises ConfigError before `fit`."""
        return self.imputed_.scores

    @property
    def classes_(self) -> np.ndarray:
        """The label of each column. Raises ConfigError before `fit`."""
        return np.arange(self.labels_.shape[1]) if self._names is None else self._names

    @property
    def n_features_in_(self) -> int:
        """The columns of the features it was fitted to; no such attribute before `fit`."""
        if self._imputed is None:
            raise AttributeError("the imputer is not fitted: n_features_in_ is not known")
        return self._n_features

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there are labels, as scikit-learn's `check_is_fitted` asks."""
        return self._imputed is not None


def given_membership(groups: Any, group_labels: Any) -> tuple[sp.csr_matrix, GivenLabels]:
    """(Y1, Y2 with the names of its columns) from groups and their labels in any form."""
    if sp.issparse(groups) or is_frame(groups) or getattr(groups, "ndim", 1) == 2:
        return as_features(groups, "membership (Y1)"), as_labels(group_labels, "group_labels (Y2)")
    ids = groups.to_list() if hasattr(groups, "to_list") else getattr(groups, "tolist", lambda: list(groups))()
    known = {group for group in ids if group not in NO_GROUP}
    numbered = all(isinstance(group, int) for group in known)
    if not numbered and not all(isinstance(group, str) for group in known):
        raise InputError("groups must be all names or all whole numbers", fix="make them all str; None is no group")
    if isinstance(group_labels, Mapping):
        missing = sorted(known - group_labels.keys())
        if missing:
            raise InputError(f"the group {missing[0]!r} has no labels", where="group_labels", fix="give [] for none")
        order = sorted(group_labels)
        labels = label_matrix([list(group_labels[group]) for group in order], "group_labels")
    else:
        labels = as_labels(group_labels, "group_labels (Y2)")
        order = list(range(labels.matrix.shape[0])) if numbered else sorted(known)
    if len(order) != labels.matrix.shape[0]:
        raise InputError(
            f"there are {len(order):,} groups, but {labels.matrix.shape[0]:,} rows of group_labels",
            fix="one list per group, in ascending order of the names; or a mapping from group to labels",
        )
    place_of = {group: place for place, group in enumerate(order)}
    beyond = next((group for group in ids if group not in place_of and group not in NO_GROUP), None)
    if beyond is not None:
        raise InputError(f"there are no labels of group {beyond!r}", fix=f"groups are 0 to {len(order) - 1:,}")
    places = np.array([place_of.get(group, -1) for group in ids], dtype=np.int64)
    try:
        return membership_of_ids(places, len(order)), labels
    except DataError as error:
        raise InputError(error.what, where=error.where, why=error.why, fix=error.fix) from error
