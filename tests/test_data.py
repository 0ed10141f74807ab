"""The committed sample is what its page says."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.samples import run_pipeline, write_pipeline
from xpipe.formats import read_dataset

TINY = Path(__file__).parent.parent / "data" / "tiny"


def test_the_sample_is_read_as_described(tmp_path):
    dataset = read_dataset(str(TINY))
    assert dataset.train.X.shape == (9, 8)
    assert dataset.train.Y.shape == (9, 4)
    assert np.flatnonzero(dataset.train.Y.getnnz(axis=1) == 0).tolist() == [7]
    assert np.flatnonzero(dataset.train.X.getnnz(axis=1) == 0).tolist() == [8]
    assert dataset.label_names.names == ["bread", "soup", "salad", "quick"]
    assert dataset.train.groups.shape == (9, 3)
    path = write_pipeline(tmp_path, TINY)
    groups = f"group={{rule: given, file: {TINY / 'train_groups.txt'}}}"
    results = run_pipeline(path, groups, "assign.method=centred")
    assert results["stages"][1]["summary"]["groups"] == 3
