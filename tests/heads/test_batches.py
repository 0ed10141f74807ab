"""ParquetBatches: every row once an epoch, in an order of (seed, epoch) alone, whoever reads."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.utils.data import DataLoader

from tests.heads.datasets import N_FEATURES, N_LABELS, make_rows, write_heads
from xpipe.errors import ConfigError, DataError
from xpipe.formats.parquet import write_dataset_part
from xpipe.ground._splitmix_numba import hash_numbers
from xpipe.ground.sparse import canonical, to_triple
from xpipe.heads.batch import Batch
from xpipe.heads.batches import ParquetBatches

SAMPLES = 1000 + 7 * np.arange(500)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_heads(tmp_path_factory.mktemp("heads"))


def samples_of(batches):
    return [batch.samples.tolist() for batch in batches]


def flat(lists):
    return [sample for part in lists for sample in part]


@pytest.mark.parametrize("prefetch", [True, False])
@pytest.mark.parametrize("window", [1, 3, 100, None])
@pytest.mark.parametrize("batch_size", [1, 7, 64, 1000])
def test_every_row_once_with_its_own_entries(folder, batch_size, window, prefetch):
    X, Y = make_rows(500)
    seen = []
    for batch in ParquetBatches(folder, batch_size=batch_size, window=window, prefetch=prefetch):
        assert isinstance(batch, Batch)
        assert 1 <= batch.n_rows <= batch_size
        assert [part.dtype for part in batch[:4]] == [torch.int64, torch.int64, torch.int64, torch.float32]
        for place, sample in enumerate(batch.samples.tolist()):
            row = (sample - 1000) // 7
            inside = slice(int(batch.offsets[place]), int(batch.offsets[place + 1]))
            owned = slice(int(batch.targets.offsets[place]), int(batch.targets.offsets[place + 1]))
            assert batch.indices[inside].tolist() == X[row].indices.tolist()
            assert batch.values[inside].tolist() == X[row].data.tolist()
            assert batch.targets.labels[owned].tolist() == Y[row].indices.tolist()
            seen.append(sample)
    assert sorted(seen) == SAMPLES.tolist()


def test_order_depends_on_seed_and_epoch_alone(folder):
    def order(seed, epoch):
        batches = ParquetBatches(folder, batch_size=32, seed=seed, window=4)
        batches.set_epoch(epoch)
        return samples_of(batches)

    first = order(0, 0)
    assert first == order(0, 0)
    assert first != order(0, 1)
    assert first != order(1, 0)
    assert flat(first) != sorted(flat(first))
    again = ParquetBatches(folder, batch_size=32, window=4)
    assert samples_of(again) == samples_of(again) == first


def test_without_shuffling_rows_come_as_they_are_stored(folder):
    assert flat(samples_of(ParquetBatches(folder, shuffle=False, batch_size=33))) == SAMPLES.tolist()


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more workers than this machine has cores
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_workers_share_the_windows(folder, workers):
    batches = ParquetBatches(folder, batch_size=20, seed=3, window=4, validation=0.2)
    batches.set_epoch(5)
    alone = samples_of(batches)
    found = samples_of(DataLoader(batches, batch_size=None, num_workers=workers))
    assert sorted(found) == sorted(alone)  # the same batches; two workers change only their order
    if workers == 1:
        assert found == alone
    assert found == samples_of(DataLoader(batches, batch_size=None, num_workers=workers))


def test_workers_that_stay_alive_see_the_epoch(folder):
    batches = ParquetBatches(folder, batch_size=50, window=4)
    loader = DataLoader(batches, batch_size=None, num_workers=1, persistent_workers=True)
    for epoch in (0, 1):
        batches.set_epoch(epoch)
        assert samples_of(loader) == samples_of(batches)


def test_validation_rows_are_disjoint_and_stay_the_same(folder):
    def rows(role, seed=0, **options):
        batches = ParquetBatches(folder, validation=0.2, role=role, seed=seed, **options)
        found = flat(samples_of(batches))
        assert len(found) == batches.count_rows()
        return set(found)

    train, held_out = rows("train"), rows("validation")
    assert not train & held_out
    assert train | held_out == set(SAMPLES.tolist())
    assert 60 < len(held_out) < 140
    assert rows("validation", shuffle=False, window=1, batch_size=3) == held_out
    assert rows("validation", seed=1) != held_out
    assert ParquetBatches(folder).count_rows() == 500


def test_batches_of_a_window_are_of_equal_size(folder):
    sizes = [len(samples) for samples in samples_of(ParquetBatches(folder, batch_size=64))]
    assert max(sizes) - min(sizes) <= 1
    assert len(sizes) == 8


def test_an_iteration_that_is_left_ends_its_thread(folder):
    import threading

    for batch in ParquetBatches(folder, window=2):
        assert batch.n_rows
        break
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("xpipe-batches")]


def test_split_and_widths(folder):
    test = ParquetBatches(folder, "test")
    assert (test.n_features, test.n_labels, test.count_rows()) == (N_FEATURES, N_LABELS, 100)


def test_mistakes(folder, tmp_path):
    for options, text in (
        ({"batch_size": 0}, "batch_size"), ({"window": 0}, "window"), ({"validation": 1.0}, "validation"),
        ({"role": "validation"}, "nothing is held out"), ({"role": "dev"}, "role"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=text):
            ParquetBatches(folder, **options)
    with pytest.raises(DataError, match="no split 'dev'"):
        ParquetBatches(folder, "dev")
    with pytest.raises(DataError, match=r"dataset\.json is missing"):
        ParquetBatches(str(tmp_path))


def test_damaged_files_are_refused(tmp_path):
    folder = write_heads(tmp_path)
    about = (tmp_path / "dataset.json").read_text()
    (tmp_path / "dataset.json").write_text(about.replace(f'"n_labels": {N_LABELS}', '"n_labels": 5'))
    with pytest.raises(DataError, match="n_labels is 12 in a part"):
        list(ParquetBatches(folder))
    (tmp_path / "dataset.json").write_text(about.replace('"rows": 500', '"rows": 501'))
    with pytest.raises(DataError, match="says 501"):
        ParquetBatches(folder)
    (tmp_path / "dataset.json").write_text(about)
    part = tmp_path / "split=train" / "part-00001.parquet"
    content = bytearray(part.read_bytes())
    content[100] ^= 1
    part.write_bytes(content)
    with pytest.raises(DataError, match="another digest than"):
        list(ParquetBatches(folder))


def test_the_hash_spreads():
    hashed = np.empty(100_000, dtype=np.uint64)
    hash_numbers(np.arange(100_000, dtype=np.uint64), hashed)
    assert len(np.unique(hashed)) == 100_000
    assert abs((hashed >> np.uint64(63)).mean() - 0.5) < 0.01


@pytest.mark.parametrize("scores", ["posterior", "chance"])
def test_chances_are_those_of_posteriors_and_candidates_are_no_targets(tmp_path, scores):
    X, Y = make_rows(40)
    Y.data[:] = np.random.default_rng(1).random(Y.nnz)
    more = sp.csr_matrix((Y.toarray() == 0) & (np.random.default_rng(0).random(Y.shape) < 0.1), dtype=np.float32) / 4
    written = write_dataset_part(
        str(tmp_path / "split=train" / "part-00000.parquet"), 1000 + 7 * np.arange(40), to_triple(X), to_triple(Y),
        n_features=N_FEATURES, n_labels=N_LABELS, row_group=16, candidates=to_triple(canonical(more)),
    )  # fmt: skip
    parts = [{"path": "split=train/part-00000.parquet", **written}]
    about = {"n_features": N_FEATURES, "n_labels": N_LABELS, "splits": {"train": {"rows": 40, "parts": parts}}}
    about |= {"label_scores": scores, "candidates": more.nnz}
    (tmp_path / "dataset.json").write_text(json.dumps(about))
    for batch in ParquetBatches(str(tmp_path), batch_size=7):
        targets = batch.targets
        assert (targets.chances is not None) == (scores == "posterior")
        found = np.zeros((batch.n_rows, N_LABELS), np.float32)
        found[targets.rows(), targets.labels] = 1 if targets.chances is None else targets.chances
        wanted = Y[(batch.samples.numpy() - 1000) // 7].toarray()
        assert np.array_equal(found, wanted if scores == "posterior" else wanted > 0)
