"""Stand-ins: the shape, the same bytes in any order, and the structure the methods downstream depend on."""

import hashlib
import json
import random
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from xpipe import synth
from xpipe.errors import ConfigError, DataError
from xpipe.formats import catalog
from xpipe.formats.catalog import StatisticsCounter
from xpipe.ground.sparse import row_norms, to_matrix, to_triple
from xpipe.synth.draws import alias_table
from xpipe.synth.model import plan_of

TINY_DIGEST = "fc0ccf47edb2838256d046f4523f983db9c4591a643463b8595b6f6c5247734a"
MIB = 1 << 20


def matrices(name, split, seed=0):
    spec = synth.spec_of(name)
    parts = [synth.rows_of(name, seed, piece) for piece in synth.plan_pieces(name) if piece.split == split]
    X = sp.vstack([to_matrix(features, spec.n_features) for features, _ in parts]).tocsr()
    return X, sp.vstack([to_matrix(labels, spec.n_labels) for _, labels in parts]).tocsr()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    return folder, synth.synthesize("tiny", folder)


@pytest.fixture(scope="module")
def eurlex():
    return {split: matrices("eurlex-4k", split) for split in ("train", "test")}


@pytest.mark.parametrize("name", synth.SPECS)
def test_pieces_cover_every_row_once(name):
    spec, pieces = synth.SPECS[name], synth.plan_pieces(name)
    for split in catalog.SPLITS:
        rows = [row for piece in pieces if piece.split == split for row in (piece.first_row, piece.n_rows)]
        assert sum(rows[1::2]) == spec.rows(split)
        assert rows[::2] == list(np.cumsum([0, *rows[1::2]])[:-1]) if rows else spec.rows(split) == 0


@pytest.mark.parametrize("name", catalog.PUBLISHED)
def test_a_stand_in_has_the_published_shape(name):
    spec, known = synth.SPECS[name], catalog.PUBLISHED[name]
    assert known.n_features in (None, spec.n_features)
    assert (spec.n_labels, spec.n_train, spec.n_test, spec.n_dev) == (
        known.n_labels, known.n_train, known.n_test, known.n_dev)  # fmt: skip


def test_eurlex_agrees_with_the_published_statistics(eurlex):
    found = catalog.statistics(eurlex)
    rows = catalog.compare(catalog.PUBLISHED["eurlex-4k"], found)
    assert not [row for row in rows if row.ok is False]
    assert found.labels_per_sample == pytest.approx(5.31, rel=0.01)
    assert found.features_per_sample == pytest.approx(236.8, rel=0.01)
    assert found.splits["train"].rows_without_labels == 28
    assert found.splits["train"].labels_without_positives == 0
    assert found.total("rows_without_features") == 0


def test_eurlex_labels_have_a_long_tail(eurlex):
    _, Y = eurlex["train"]
    frequency = np.sort(np.bincount(Y.indices, minlength=Y.shape[1]))[::-1]
    assert 600 < frequency[0] < 2000
    assert 300 < np.count_nonzero(frequency == 1) < 1600
    assert frequency[:400].sum() > 0.5 * frequency.sum()
    assert np.median(frequency) < 8


def test_eurlex_rows_share_a_background(eurlex):
    """Mean cosine 0.053, norm of the mean row 0.229 on real EU documents (TF-IDF of their 5,000 commonest words)."""
    X, _ = eurlex["train"]
    np.testing.assert_allclose(row_norms(to_triple(X)), 1.0, atol=1e-4)
    mean = np.asarray(X.mean(axis=0)).ravel()
    assert 0.2 < np.linalg.norm(mean) < 0.3
    pairs = random.Random(0).sample(range(X.shape[0]), 4000)
    cosines = np.asarray(X[pairs[:2000]].multiply(X[pairs[2000:]]).sum(axis=1)).ravel()
    assert 0.04 < cosines.mean() < 0.09
    assert X.data.min() > 0


def test_labels_co_occur(eurlex):
    """A label's commonest companion is far more common beside it than elsewhere."""
    _, Y = eurlex["train"]
    frequency = np.bincount(Y.indices, minlength=Y.shape[1])
    together = (Y.T @ Y).tolil()
    together.setdiag(0)
    together = together.tocsr()
    lifts = []
    for label in np.flatnonzero((frequency > 20) & (frequency < 100)):
        row = together[label]
        best = row.data.argmax()
        lifts.append(row.data[best] / frequency[label] / (frequency[row.indices[best]] / Y.shape[0]))
    assert np.median(lifts) > 5


def test_planted_truth_is_what_the_rows_show(eurlex):
    X, Y = eurlex["train"]
    truth = synth.planted_truth("eurlex-4k")
    np.testing.assert_allclose(np.asarray(truth.sum(axis=1)).ravel(), 1.0, atol=1e-5)
    frequency = np.bincount(Y.indices, minlength=Y.shape[1])
    labels = np.flatnonzero(frequency > 30)
    mean = np.asarray(X.mean(axis=0)).ravel()
    centroids = np.asarray((Y.T.tocsr()[labels] @ X).todense()) / frequency[labels][:, None] - mean
    planted = truth[labels].toarray()
    own = np.einsum("ij,ij->i", planted, centroids)
    others = np.einsum("ij,ij->i", np.roll(planted, 1, axis=0), centroids)
    assert np.mean(own > others) > 0.97
    assert np.mean([np.corrcoef(p, c)[0, 1] for p, c in zip(planted, centroids, strict=True)]) > 0.3


def precisions(X, Y, size):
    """Share of group labels given to a sample that has them, by the sum over the label's groups, plain and centred."""
    n = X.shape[0]
    group = np.random.default_rng(0).permutation(n) // size
    members = sp.csr_matrix((np.ones(n, dtype=np.float32), (group, np.arange(n))))
    group_labels = (members @ Y).tocsr()
    group_labels.data[:] = 1
    embedding = group_labels.T.tocsr() @ (members @ X).toarray()
    centred = embedding - np.outer(group_labels.T @ members.sum(axis=1), X.mean(axis=0))
    hits, asked = np.zeros(2), 0
    for g in range(0, members.shape[0], 20):
        rows, labels = members[g].indices, group_labels[g].indices
        true = Y[rows][:, labels].toarray()
        for way, E in enumerate((embedding, centred)):
            owner = np.asarray(X[rows] @ E[labels].T).argmax(axis=0)
            hits[way] += true[owner, np.arange(len(labels))].sum()
        asked += len(labels)
    return hits / asked


def test_the_background_is_what_makes_grouped_labels_hard(eurlex):
    """Real EU documents, groups of ten: 0.33 with the background left in, 0.84 once the mean row is removed."""
    plain, centred = precisions(*eurlex["train"], size=10)
    assert 0.25 < plain < 0.45
    assert 0.75 < centred < 0.92


def test_pieces_give_the_same_bytes_in_any_order(tiny, tmp_path):
    folder, _ = tiny
    pieces = synth.plan_pieces("tiny")
    paths = [tmp_path / f"{number}.txt" for number in range(len(pieces))]
    plan_of.cache_clear()
    for number in random.Random(1).sample(range(len(pieces)), len(pieces)):
        synth.write_piece("tiny", 0, pieces[number], paths[number])
    synth.assemble("tiny", 0, paths, tmp_path / "out")
    synth.write_side_files("tiny", 0, tmp_path / "out")
    made = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert made == {path.name: path.read_bytes() for path in folder.iterdir()}


def test_rows_do_not_depend_on_the_size_of_pieces():
    whole, _ = synth.rows_of("tiny", 0, synth.Piece("train", 0, 0, 600))
    part, _ = synth.rows_of("tiny", 0, synth.Piece("train", 7, 101, 1))
    start, stop = whole.indptr[101:103]
    np.testing.assert_array_equal(part.indices, whole.indices[start:stop])
    np.testing.assert_array_equal(part.values, whole.values[start:stop])


def test_tiny_keeps_its_bytes(tiny):
    """A change of these bytes is a change of SYNTH_VERSION."""
    folder, _ = tiny
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["SYNTHETIC.json", "features.txt", "labels.txt", "test.txt", "train.txt", "truth.npz"]
    digest = hashlib.sha256()
    for name in names[1:-1]:
        digest.update((folder / name).read_bytes())
    assert digest.hexdigest() == TINY_DIGEST


def test_seed_splits_and_names_differ(tiny):
    folder, _ = tiny
    train, test = synth.Piece("train", 0, 0, 50), synth.Piece("test", 0, 0, 50)
    texts = [synth.piece_text("tiny", 0, train), synth.piece_text("tiny", 1, train), synth.piece_text("tiny", 0, test)]
    assert len(set(texts)) == 3
    labels, features = ((folder / file).read_text().splitlines() for file in ("labels.txt", "features.txt"))
    assert len(labels) == len(set(labels)) == 60
    assert len(features) == len(set(features)) == 300
    assert features == sorted(features)


def test_tiny_files_say_synthetic_and_hold_the_shape(tiny):
    folder, report = tiny
    marker = json.loads((folder / "SYNTHETIC.json").read_text())
    assert "SYNTHETIC stand-in" in marker["SYNTHETIC"]
    assert (marker["name"], marker["seed"], marker["version"]) == ("tiny", 0, synth.SYNTH_VERSION)
    assert report["found"]["labels_per_sample"] == pytest.approx(marker["statistics"]["labels_per_sample"], rel=0.01)
    assert report["found"]["features_per_sample"] == pytest.approx(25, rel=0.01)
    assert report["found"]["splits"]["train"]["rows_without_labels"] == 3
    assert report["found"]["splits"]["train"]["labels_without_positives"] == 0
    lines = (folder / "train.txt").read_bytes().split(b"\n")
    assert lines[0] == b"600 300 60"
    assert len(lines) == 602
    assert sum(line.startswith(b" ") for line in lines) == 3
    with np.load(folder / "truth.npz", allow_pickle=False) as stored:
        assert tuple(stored["shape"]) == (60, 300)
    np.testing.assert_array_equal(sp.load_npz(folder / "truth.npz").toarray(), synth.planted_truth("tiny").toarray())


def test_an_alias_table_holds_its_weights():
    weights = np.random.default_rng(0).pareto(1.0, 1000)
    threshold, alias = alias_table(weights)
    chance = np.zeros(1000)
    for cell in range(1000):
        own = (int(threshold[cell]) + 1) / 2**32
        chance[cell] += own
        chance[alias[cell]] += 1 - own
    np.testing.assert_allclose(chance / 1000, weights / weights.sum(), atol=1e-9)


def test_every_label_is_in_train_even_where_rows_are_few():
    """Wiki10-31K has twice as many labels as training rows."""
    plan = plan_of("wiki10-31k", 0)
    spec = synth.SPECS["wiki10-31k"]
    piece = synth.plan_pieces("wiki10-31k")[3]
    _, labels = synth.rows_of("wiki10-31k", 0, piece)
    assert len(np.unique(plan.certain_labels)) > spec.n_train
    Y = to_matrix(labels, spec.n_labels)
    inside = (plan.certain_rows >= piece.first_row) & (plan.certain_rows < piece.first_row + piece.n_rows)
    carried = Y[plan.certain_rows[inside] - piece.first_row, plan.certain_labels[inside]]
    assert np.all(np.asarray(carried) == 1)


def test_progress_counts_rows(tmp_path):
    calls = []
    synth.synthesize("tiny", tmp_path, seed=3, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (800, 800)
    assert [done for done, _ in calls] == [256, 512, 600, 800]


def test_mistakes_are_explained(tmp_path):
    with pytest.raises(ConfigError, match=r"did you mean .*tiny"):
        synth.spec_of("tinny")
    with pytest.raises(ConfigError, match="seed"):
        synth.synthesize("tiny", tmp_path / "out", seed=-1)
    assert not (tmp_path / "out").exists()
    with pytest.raises(DataError, match="4 pieces, 0 files"):
        synth.assemble("tiny", 0, [], tmp_path)
    assert synth.spec_of("EURLex-4K") is synth.SPECS["eurlex-4k"]


AMAZONCAT = """
from xpipe import synth
from xpipe.ground import machine
from xpipe.formats.catalog import StatisticsCounter
spec, pieces = synth.SPECS["amazoncat-13k"], synth.plan_pieces("amazoncat-13k")
total = 0
for piece in (pieces[0], pieces[40], pieces[-1]):
    total += len(synth.piece_text(spec.name, 0, piece))
print(machine.peak_bytes(), total)
"""


def test_amazoncat_pieces_need_little_memory():
    done = subprocess.run([sys.executable, "-c", AMAZONCAT], capture_output=True, text=True, check=True)
    peak, n_bytes = map(int, done.stdout.split())
    assert n_bytes > 20 * MIB
    assert peak < 700 * MIB


def test_amazoncat_averages_hold_within_a_piece():
    spec = synth.SPECS["amazoncat-13k"]
    counter = StatisticsCounter(spec.n_features, spec.n_labels)
    counter.add("train", *synth.rows_of(spec.name, 0, synth.plan_pieces(spec.name)[17]))
    assert counter.result().labels_per_sample == pytest.approx(5.04, rel=0.01)
    assert counter.result().features_per_sample == pytest.approx(71.24, rel=0.01)
