"""GroupLabelImputer: every form of groups and labels gives what `impute` gives; what does not fit is named."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from xpipe.eagle import GroupLabelImputer, impute
from xpipe.errors import ConfigError, InputError

X = sp.csr_matrix(np.array([[1, 0], [0, 1], [1, 0], [-1, 0], [0, 1]], dtype=np.float32))
Y1 = sp.csr_matrix(np.array([[1, 0], [1, 0], [0, 1], [0, 1], [0, 0]], dtype=np.float32))
Y2 = sp.csr_matrix(np.array([[1, 0], [1, 1]], dtype=np.float32))
NAMED = {"Mill": ["bread"], "Pot": ["bread", "soup"]}


@pytest.mark.parametrize(
    ("groups", "group_labels"),
    [
        (Y1, Y2),
        (Y1.toarray(), sp.csr_array(Y2)),
        ([0, 0, 1, 1, -1], Y2),
        (np.array([0, 0, 1, 1, -1]), [["bread"], ["bread", "soup"]]),
        (["Mill", "Mill", "Pot", "Pot", None], [["bread"], ["soup", "bread"]]),
        (["Mill", "Mill", "Pot", "Pot", None], {**NAMED, "Zoo": ["soup"]}),
    ],
)
def test_every_form_gives_the_same_owners(groups, group_labels):
    imputer = GroupLabelImputer("eagle", steps=3)
    found, expected = imputer.fit_transform(X, groups, group_labels), impute(X, Y1, Y2, "eagle", steps=3)
    assert (found != expected.labels).nnz == 0
    assert (imputer.scores_ != expected.scores).nnz == 0
    assert imputer.classes_.tolist() in (["bread", "soup"], [0, 1])
    assert imputer.imputed_.trace["method"] == "eagle"


def test_in_a_pipeline_after_texts():
    pipeline = pytest.importorskip("sklearn.pipeline")
    from xpipe.text import Vectorizer

    model = pipeline.Pipeline([("tfidf", Vectorizer()), ("owners", GroupLabelImputer("baseline"))])
    found = model.fit_transform(["rye", "pea", "pea"], ["Mill", "Pot", "Pot"], owners__group_labels=NAMED)
    assert found.toarray().tolist() == [[1, 0], [1, 1], [1, 1]]


@pytest.mark.parametrize(
    ("groups", "group_labels", "message"),
    [
        (["Mill", "Pot"], {"Mill": ["a"]}, "'Pot' has no labels"),
        ([0, 2], [["a"], ["b"]], "group 2"),
        (["Mill", "Pot"], [["a"]], "2 groups, but 1 rows"),
        (["Mill", 1], {"Mill": ["a"]}, "all names or all whole numbers"),
        ([0, 0, 0], [["a"]], "do not fit"),
    ],
)
def test_what_does_not_fit_is_named(groups, group_labels, message):
    with pytest.raises((InputError, Exception), match=message):
        GroupLabelImputer("baseline").fit(X[:2], groups, group_labels)


def test_before_fit():
    with pytest.raises(ConfigError, match="not fitted"):
        _ = GroupLabelImputer().labels_
    with pytest.raises(ConfigError, match="method"):
        GroupLabelImputer("best")
