"""Estimators in scikit-learn: its own checks, pipelines, cross-validation, search. What fails is listed."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from xpipe.eagle import GroupLabelImputer
from xpipe.errors import ConfigError, InputError, ParameterError
from xpipe.ground.given_features import as_features
from xpipe.metrics import make_scorer
from xpipe.text import Vectorizer
from xpipe.trees import LabelTree

sklearn = pytest.importorskip("sklearn")
GUIDE = Path(__file__).parent.parent.parent / "docs" / "guides" / "scikit_learn.md"
TEXTS = ["rye bread", "white bread", "pea soup", "fish soup", "bread soup", "pea bread"] * 4
LABELS = [["bread"], ["bread"], ["soup", "quick"], ["soup"], ["bread", "soup"], ["quick"]] * 4
# Checks of scikit-learn that cannot pass, and why. The guide lists them too.
LEFT_OUT = {
    "check_do_not_raise_errors_in_init_or_set_params": "a wrong parameter is an error where it is given, not in fit",
    "check_dtype_object": "a cell that is no number is an InputError, a ValueError; the check wants a TypeError",
    "check_estimators_empty_data_messages": "no rows, or no columns, make an empty model, which predicts nothing",
}
OF_TREES = {
    "check_estimator_sparse_array": "a prediction has one column per label; the check wants one per target",
    "check_estimator_sparse_matrix": "a prediction has one column per label; the check wants one per target",
}
OF_IMPUTERS = {
    "check_fit_score_takes_y": "its fit takes groups and the labels of groups, not y",
    "check_pipeline_consistency": "its fit takes groups and the labels of groups, not y",
}


class OfSamples(GroupLabelImputer):
    """An imputer whose groups are single samples: the checks know of no groups."""

    def fit(self, X, Y):
        X = as_features(X)
        return super().fit(X, np.arange(X.shape[0]), Y)


@pytest.mark.filterwarnings("ignore:Estimator .* does not inherit:UserWarning")
@pytest.mark.filterwarnings("ignore:.*recommended to delay parameter validation:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.EstimatorCheckFailedWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize(
    ("estimator", "left_out"),
    [(LabelTree(n_trees=1), OF_TREES), (OfSamples("baseline"), OF_IMPUTERS)],
    ids=["tree", "imputer"],
)
def test_checks_of_scikit_learn(estimator, left_out):
    from sklearn.utils.estimator_checks import check_estimator

    found = check_estimator(estimator, on_fail=None)
    failed = {check["check_name"] for check in found if check["status"] == "failed"}
    assert failed == {*LEFT_OUT, *left_out}
    assert sum(check["status"] == "passed" for check in found) > 30


def test_the_guide_lists_the_checks_that_fail():
    assert set(re.findall(r"`(check_\w+)`", GUIDE.read_text())) == {*LEFT_OUT, *OF_TREES, *OF_IMPUTERS}


@pytest.mark.parametrize(
    ("estimator", "shown"),
    [
        (LabelTree(n_trees=1, loss="logistic"), "LabelTree(n_trees=1, loss='logistic')"),
        (Vectorizer(ngram_range=(1, 2), stop_words={"b", "a"}), "Vectorizer(ngrams=(1, 2), stop_words=['a', 'b'])"),
        (GroupLabelImputer("eagle", steps=3), "GroupLabelImputer(method='eagle', steps=3)"),
    ],
    ids=str,
)
def test_clones_params_and_repr(estimator, shown):
    from sklearn.base import clone

    assert repr(estimator) == repr(clone(estimator)) == repr(pickle.loads(pickle.dumps(estimator))) == shown
    assert repr(type(estimator)().set_params(**estimator.get_params())) == shown
    with pytest.raises(ParameterError, match="no parameter `nothing`"):
        estimator.set_params(nothing=1)


def test_a_wrong_parameter_changes_nothing():
    tree = LabelTree(n_trees=2)
    with pytest.raises(ParameterError, match="arity"):
        tree.set_params(n_trees=1, arity=1)
    assert repr(tree) == "LabelTree(n_trees=2)"
    with pytest.raises(ConfigError, match="n_trees"):
        LabelTree(n_tree=2)


def test_a_pipeline_learns_names_from_texts():
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import Pipeline

    model = Pipeline([("tfidf", Vectorizer()), ("tree", LabelTree(n_trees=1))])
    found = model.fit(TEXTS, LABELS).predict(["white bread", "pea soup"], k=2)
    named = model[-1].named(found)
    assert named[0][0][0] == "bread"
    assert {name for name, _ in named[1]} == {"soup", "quick"}
    assert all(row[0][1] >= row[1][1] for row in named)
    assert model.classes_.tolist() == ["bread", "quick", "soup"]
    assert "LabelTree" in model._repr_html_()
    scorer = make_scorer("ndcg", k=2)
    assert cross_val_score(model, TEXTS, LABELS, scoring=scorer, cv=2).min() > 0.7
    search = GridSearchCV(model, {"tfidf__ngram_range": [(1, 1), (1, 2)], "tree__cost": [0.8]}, scoring=scorer, cv=2)
    assert scorer(search.fit(TEXTS, LABELS), TEXTS, LABELS) == pytest.approx(scorer(model, TEXTS, LABELS), abs=0.1)
    assert search.best_params_["tfidf__ngram_range"] in [(1, 1), (1, 2)]


def frames():
    """(features, labels) of the same rows in every form, labels with names where the form has them."""
    X = np.array([[1.0, 0], [0, 2], [1, 1]], dtype=np.float32)
    lists = [["b"], ["a"], ["a", "b"]]
    indicator = np.array([[0, 1], [1, 0], [1, 1]])
    yield "lists", X.tolist(), lists
    yield "csr_array", sp.csr_array(X), sp.csr_array(indicator)
    yield "tuples and sets", sp.coo_matrix(X), (("b",), {"a"}, {"a", "b"})
    yield "object arrays", X, np.array([*map(np.array, lists), None], dtype=object)[:3]
    polars = pytest.importorskip("polars")
    yield "polars", polars.DataFrame(X, schema=["x", "y"]), polars.Series(lists)
    yield "polars indicator", polars.DataFrame(X, schema=["x", "y"]), polars.DataFrame(indicator, schema=["a", "b"])
    try:
        import pandas as pd
    except ImportError:
        return
    yield "pandas", pd.DataFrame(X), pd.Series(lists)
    sparse = pd.DataFrame.sparse.from_spmatrix(sp.csr_matrix(X))
    yield "pandas sparse", sparse, pd.DataFrame(indicator, columns=["a", "b"])


def test_every_form_of_the_same_rows_gives_the_same_bytes():
    expected = None
    for form, X, Y in frames():
        tree = LabelTree(n_trees=1).fit(X, Y)
        scores = tree.predict(X, k=2)
        found = scores.indices.tolist(), scores.data.tobytes()
        expected = expected or found
        assert found == expected, form
        assert tree.classes_.tolist() in (["a", "b"], [0, 1]), form


def test_texts_in_frames():
    polars = pytest.importorskip("polars")
    expected = Vectorizer().fit_transform(TEXTS)
    frame = polars.DataFrame({"text": TEXTS, "more": TEXTS})
    for texts in (frame["text"], frame.select("text")):
        assert (Vectorizer().fit_transform(texts) != expected).nnz == 0
    with pytest.raises(Exception, match="2 columns"):
        Vectorizer().fit(frame)


@pytest.mark.parametrize(
    ("Y", "message"),
    [([["a"], "b", ["c"]], "row 1"), ([["a"], [2], []], "row 1"), ([["a"], [None], []], "None"), ("abc", "str")],
)
def test_wrong_labels_are_named(Y, message):
    with pytest.raises(InputError, match=message):
        LabelTree().fit(np.eye(3), Y)


def test_names_are_saved_with_the_tree(tmp_path):
    path = str(tmp_path / "tree.npz")
    LabelTree(n_trees=1).fit(np.eye(3), [["ö"], ["b"], ["b", "c"]]).save(path)
    assert LabelTree.load(path).classes_.tolist() == ["b", "c", "ö"]
    import xpipe

    assert xpipe.load(path).best(sp.csr_matrix(np.eye(3)), k=1)[0][0][0] == "ö"
