"""The catalog: names, statistics part by part, comparison with what is published."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from xpipe.errors import ConfigError, DataError
from xpipe.formats import catalog
from xpipe.formats.catalog import PUBLISHED, SplitStatistics, Statistics, StatisticsCounter
from xpipe.ground.sparse import Triple, canonical, to_triple


def random_split(n_rows, n_features, n_labels, seed):
    rng = np.random.default_rng(seed)
    X = sp.random(n_rows, n_features, 0.2, "csr", np.float32, random_state=rng)
    Y = sp.random(n_rows, n_labels, 0.2, "csr", np.float32, random_state=rng)
    Y.data[:] = 1
    return canonical(X), canonical(Y)


def as_published(known, **changes):
    """Statistics of data that agree with what is published."""
    splits = {}
    for split in catalog.SPLITS:
        rows = known.rows(split)
        if rows:
            features = round(rows * (known.features_per_sample or 100))
            empty = (known.unlabelled_train_rows or 0) if split == "train" else 0
            splits[split] = SplitStatistics(rows, features, round(rows * known.labels_per_sample), empty, 0, 0)
    fields = {"n_features": known.n_features or 5000, "n_labels": known.n_labels, "splits": splits}
    return Statistics(**{**fields, "labels_without_positives": 0, **changes})


@pytest.mark.parametrize("spelling", ["eurlex-4k", "EURLex-4K", "eurlex_4k", "Eurlex4K"])
def test_lookup_takes_every_usual_spelling(spelling):
    assert catalog.lookup(spelling).n_labels == 3993


@pytest.mark.parametrize(
    ("wrong", "meant"), [("eurlex-4", "eurlex-4k"), ("amazon-13k", "amazoncat-13k"), ("tinny", "tiny")]
)
def test_an_unknown_name_gets_close_matches(wrong, meant):
    with pytest.raises(ConfigError, match=f"did you mean .*{meant}"):
        catalog.lookup(wrong, also=["tiny"])


def test_a_name_like_nothing_known_lists_all_names():
    with pytest.raises(ConfigError) as caught:
        catalog.lookup("???")
    assert all(name in str(caught.value) for name in PUBLISHED)


@pytest.mark.parametrize("known", PUBLISHED.values(), ids=PUBLISHED)
def test_published_figures_agree_with_each_other(known):
    if known.samples_per_label is not None:
        rows = sum(known.rows(split) for split in known.samples_per_label_splits)
        assert rows * known.labels_per_sample / known.n_labels == pytest.approx(known.samples_per_label, rel=0.002)


@pytest.mark.parametrize("known", PUBLISHED.values(), ids=PUBLISHED)
def test_data_as_published_pass_every_line(known):
    rows = catalog.compare(known, as_published(known))
    assert not [row for row in rows if row.ok is False]
    assert [row.quantity for row in rows if row.ok is None] == [
        row.quantity for row in rows if row.note == "nothing published"
    ]


def test_compare_says_what_differs_and_by_how_much():
    known = PUBLISHED["eurlex-4k"]
    found = as_published(known, n_labels=3956)
    found.splits["train"] = SplitStatistics(15_449, 15_449 * 237, 15_449 * 6, 0, 2, 44)
    rows = {row.quantity: row for row in catalog.compare(known, found)}
    assert (rows["labels"].ok, rows["labels"].note) == (False, "-37")
    assert (rows["train rows"].ok, rows["train rows"].note) == (False, "-90")
    assert rows["labels per sample"].ok is False
    assert "%" in rows["labels per sample"].note
    assert rows["train rows without labels"].ok is False
    assert rows["rows without features"].found == 2
    assert rows["labels without a training positive"].found == 44
    assert rows["test rows"].ok is True
    assert "train and test" in rows["samples per label"].note


def test_averages_may_differ_by_two_percent():
    known = PUBLISHED["wiki10-31k"]
    for off, ok in ((1.015, True), (1.03, False), (0.97, False)):
        found = as_published(known)
        for split, each in list(found.splits.items()):
            found.splits[split] = replace(each, feature_entries=round(each.feature_entries * off))
        rows = {row.quantity: row for row in catalog.compare(known, found)}
        assert rows["features per sample"].ok is ok


def test_a_missing_split_is_a_difference():
    known = PUBLISHED["eurlex57k"]
    found = as_published(known)
    del found.splits["dev"]
    assert {row.quantity: row.ok for row in catalog.compare(known, found)}["dev rows"] is False


@given(seed=st.integers(0, 10_000), cuts=st.lists(st.integers(0, 30), max_size=4))
@settings(max_examples=25, deadline=None)
def test_parts_add_up_to_the_whole(seed, cuts):
    X, Y = random_split(30, 12, 9, seed)
    Xt, Yt = random_split(7, 12, 9, seed + 1)
    whole = catalog.statistics({"train": (X, Y), "test": (Xt, Yt)})
    counter = StatisticsCounter(12, 9)
    counter.add("test", to_triple(Xt), to_triple(Yt))
    edges = [0, *sorted(cuts), 30]
    for start, stop in pairwise(edges):
        counter.add("train", to_triple(X[start:stop]), to_triple(Y[start:stop]))
    assert counter.result() == whole
    train = whole.splits["train"]
    assert train.rows_without_labels == np.count_nonzero(Y.sum(axis=1) == 0)
    assert train.rows_without_features == np.count_nonzero(np.diff(X.indptr) == 0)
    assert train.labels_without_positives == np.count_nonzero(Y.sum(axis=0) == 0)
    assert whole.labels_without_positives == np.count_nonzero(Y.sum(axis=0) + Yt.sum(axis=0) == 0)
    assert whole.labels_per_sample == pytest.approx((Y.nnz + Yt.nnz) / 37)
    assert whole.to_dict()["splits"]["train"]["label_entries"] == Y.nnz


def test_triples_that_start_within_a_larger_array_are_counted_right():
    X, Y = random_split(20, 6, 5, 0)
    counter, all_x, all_y = StatisticsCounter(6, 5), to_triple(X), to_triple(Y)
    window = slice(5, 13)
    counter.add("train", Triple(all_x.indptr[window], *all_x[1:]), Triple(all_y.indptr[window], *all_y[1:]))
    assert counter.result() == catalog.statistics({"train": (X[5:12], Y[5:12])})


def test_rows_and_widths_that_disagree_are_errors():
    X, Y = random_split(6, 4, 3, 0)
    with pytest.raises(DataError, match="6 rows, labels 5"):
        StatisticsCounter(4, 3).add("train", to_triple(X), to_triple(Y[:5]))
    with pytest.raises(DataError, match=r"outside 0\.\.0"):
        StatisticsCounter(4, 1).add("train", to_triple(X), to_triple(Y))
    with pytest.raises(DataError, match="differ in width"):
        catalog.statistics({"train": (X, Y), "test": (X[:, :2], Y)})
    with pytest.raises(DataError, match="no split"):
        catalog.statistics({})


def test_guess_by_folder_then_by_shape():
    known = PUBLISHED["amazoncat-13k"]
    other = as_published(known, n_labels=7)
    assert catalog.guess(other, "data/AmazonCat-13K/") is known
    assert catalog.guess(other, "data/eurlex57k-5k") is PUBLISHED["eurlex57k"]
    assert catalog.guess(other, "data/mine") is None
    assert catalog.guess(as_published(known), "data/mine") is known
    assert catalog.guess(as_published(PUBLISHED["eurlex57k"])) is PUBLISHED["eurlex57k"]
    for each in PUBLISHED.values():
        assert catalog.guess(as_published(each)) is each
