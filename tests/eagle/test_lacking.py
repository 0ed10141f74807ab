"""Groups that lack a label: how labels lie in blocks changes no byte, and every group is visited once per block."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.eagle.samples import overlapping, planted, whitened
from xpipe.eagle import lacking
from xpipe.eagle._rows_numba import Lists
from xpipe.eagle.rounds import fit_posteriors


@pytest.mark.parametrize("most", [1, 50, 1000])
@pytest.mark.parametrize("threads", [1, 3])
def test_blocks_change_no_byte(monkeypatch, most, threads):
    X, Y = planted(n_samples=120, n_features=40)
    Y1, Y2 = overlapping(Y)
    rows = whitened(X, 40, 2.0)
    beside = sp.csr_matrix((Y2.toarray() == 0) & (np.random.default_rng(0).random(Y2.shape) < 0.3), dtype=np.float32)

    def sums() -> bytes:
        found = fit_posteriors(rows, Y1, Y2, rounds=2, powers=np.array([1.0, 2.5]), beside=beside, threads=threads)
        return found.cells.lacking.tobytes() + found.cells.having.tobytes() + found.score.data.tobytes()

    together = sums()
    monkeypatch.setattr(lacking, "MOST_MEMBERS", most)
    assert sums() == together


def test_rows_of_large_groups_are_scored_some_at_a_time():
    """More members than are copied together: scores are those of the same group with its members elsewhere."""
    rng = np.random.default_rng(1)
    X = sp.csr_matrix(rng.random((200, 12)) < 0.4, dtype=np.float32)
    groups = np.repeat([0, 1], [150, 50])  # 150 members: two full copies and a part
    Y1 = sp.csr_matrix((np.ones(200, np.float32), (np.arange(200), groups)))
    Y2 = sp.csr_matrix(np.array([[0.0], [1.0]], dtype=np.float32))
    beside = sp.csr_matrix(np.array([[1.0], [0.0]], dtype=np.float32))
    rows, options = whitened(X, 12, 2.0), {"rounds": 1, "powers": np.array([1.0]), "most_members": 0}

    def sums_of(Y1: sp.csr_matrix, Y2: sp.csr_matrix, beside: sp.csr_matrix) -> np.ndarray:
        return np.exp(fit_posteriors(rows, Y1, Y2, beside=beside, **options).cells.lacking).ravel()

    whole = sums_of(Y1, Y2, beside)
    pieces = np.where(groups == 1, 5, np.arange(200) // 30)  # the same members in groups of 30
    Y1 = sp.csr_matrix((np.ones(200, np.float32), (np.arange(200), pieces)))
    alone = sums_of(
        Y1,
        sp.csr_matrix(np.array([[0], [0], [0], [0], [0], [1]], dtype=np.float32)),
        sp.csr_matrix(np.array([[1], [1], [1], [1], [1], [0]], dtype=np.float32)),
    )
    assert len(alone) == 5
    assert alone.sum() == pytest.approx(whole[0], rel=1e-6)


def test_blocks_hold_all_labels_in_their_order(monkeypatch):
    groups = Lists(np.array([0, 2, 2, 5, 6]), np.array([0, 1, 0, 1, 2, 2], dtype=np.int32))  # of four labels
    members = Lists(np.array([0, 10, 30, 70]), np.zeros(70, np.int32))
    monkeypatch.setattr(lacking, "MOST_MEMBERS", 60)
    labels = np.array([3, 0, 1, 2])  # 40, 30, 0 and 70 members
    blocks = list(lacking.blocks_of_labels(labels, groups, members))
    assert np.concatenate(blocks).tolist() == labels.tolist()
    assert len(blocks) > 1
    block, visits = lacking.lay_out_block(labels, groups, members, 2)
    assert visits.groups.tolist() == [0, 1, 2]
    seen = [visits.labels[visits.entries.starts[i] : visits.entries.starts[i + 1]].tolist() for i in range(3)]
    assert [sorted(found) for found in seen] == [[0, 2], [0, 2], [2, 3]]
    assert len(block.scores) == 140
    assert sorted(block.firsts.tolist()) == [0, 40, 50, 70, 80, 100]
