"""Rows mapped from files as they are stored, blocks of them, and points that float32 proves."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from tests.argmaxability.test_weights import write_safetensors
from xpipe.argmaxability import check, evidence, lifted, open_rows, stored_rows, verify
from xpipe.argmaxability.layer_files import files_of_layer, open_layer
from xpipe.argmaxability.rounding import SINGLE
from xpipe.argmaxability.separation_bounds import point_bounds
from xpipe.errors import ConfigError, DataError

W = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
HALVES = (W.view(np.uint32) >> 16).astype("<u2")  # bfloat16
ROUNDED = (HALVES.astype(np.uint32) << 16).view(np.float32)


def test_rows_are_mapped_and_not_copied(tmp_path):
    np.save(tmp_path / "W.npy", W.astype(np.float16))
    rows = open_rows(str(tmp_path / "W.npy"))
    assert isinstance(rows.stored, np.memmap)
    assert rows.dtype == "float16"
    assert (rows.take(slice(None)) == W.astype(np.float16)).all()
    tensors = {"first": ("F32", (3,), bytes(12)), "lm_head.weight": ("BF16", W.shape, HALVES.tobytes())}
    rows = open_rows(write_safetensors(tmp_path / "m.safetensors", tensors), "lm_head.weight")
    assert isinstance(rows.stored, np.memmap)
    assert rows.dtype == "bfloat16"
    assert (rows.take(np.array([5, 2])) == ROUNDED[[5, 2]]).all()
    found = verify(rows, mode="argmax")
    assert (found.codes == verify(ROUNDED, mode="argmax").codes).all()
    assert check(rows, None, found).all()


def test_a_model_in_several_files(tmp_path):
    write_safetensors(tmp_path / "model-2.safetensors", {"lm_head.weight": ("F32", W.shape, W.tobytes())})
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": {"lm_head.weight": "model-2.safetensors"}}))
    assert (open_layer(str(index), "lm_head.weight").rows.take(slice(None)) == W).all()
    with pytest.raises(ConfigError, match=r"did you mean 'lm_head\.weight'"):
        open_rows(str(index), "lm_head.wight")
    bias = np.arange(40, dtype=np.float32)
    write_safetensors(tmp_path / "model-1.safetensors", {"lm_head.bias": ("F32", (40,), bias.tobytes())})
    files = {"lm_head.weight": "model-2.safetensors", "lm_head.bias": "model-1.safetensors"}
    index.write_text(json.dumps({"weight_map": files}))
    layer = open_layer(str(tmp_path), "lm_head.weight")  # the folder of the model
    assert (layer.bias == bias).all()
    assert layer.bias_told == "bias: lm_head.bias (40 numbers)"
    assert files_of_layer(str(index), "lm_head.weight") == sorted(str(tmp_path / name) for name in files.values())
    for outside in ("../model-2.safetensors", "/etc/x.safetensors", "a/b.safetensors"):
        index.write_text(json.dumps({"weight_map": {"lm_head.weight": outside}}))
        with pytest.raises(DataError, match="outside its folder"):
            open_rows(str(index), "lm_head.weight")
    index.write_text("[]")
    with pytest.raises(DataError):
        open_rows(str(index), "lm_head.weight")


def test_many_rows_give_the_same_verdicts_in_blocks(monkeypatch):
    """The way of large weights, with small blocks: points in float32 first, scores block by block."""
    whole = verify(W, mode="argmax")
    monkeypatch.setattr(evidence, "SMALL", 10)
    monkeypatch.setattr(lifted, "CACHED", 10)
    monkeypatch.setattr(stored_rows, "BLOCK", 21)
    in_blocks = verify(W, mode="argmax")
    assert set(whole.status) == {"argmaxable", "unargmaxable"}
    assert (in_blocks.codes == whole.codes).all()
    assert check(W, None, in_blocks).all()
    assert check(W, None, whole).all()
    bias = np.linspace(-1, 1, 40)
    for inputs in ("any", "nonnegative"):
        found = verify(W, mode="argmax", bias=bias, inputs=inputs)
        assert check(W, None, found, bias).all()
        assert not (found.status == "undecided").any()


def test_what_float32_proves_is_true():
    """Scores that cancel: a gap that float32 sees with the wrong sign must not be proved."""
    rng = np.random.default_rng(1)
    wrong = proved = 0
    for _ in range(200):
        rows = rng.standard_normal((2, 30)).astype(np.float32)
        x = rng.standard_normal(30).astype(np.float32).astype(np.float64)
        gap = (rows[0].astype(float) - rows[1]) @ x
        x[-1] -= gap / (float(rows[0, -1]) - rows[1, -1]) * (1 + 1e-7 * rng.standard_normal())
        exact = sum((Fraction(float(a)) - Fraction(float(b))) * Fraction(c) for a, b, c in zip(*rows, x, strict=True))
        computed = rows @ x.astype(np.float32)
        wrong += (computed[0] > computed[1]) != (exact > 0)
        largest = float(np.linalg.norm(rows.astype(float), axis=1).max())
        sets = sp.csr_matrix(np.eye(2))
        lower = point_bounds(
            stored_rows.StoredRows(rows), None, largest, sets.indptr, sets.indices, np.stack([x, x]), 1e9, -1.0,
            unit=SINGLE,
        )  # fmt: skip
        assert lower[0] == 0 or exact > 0
        assert lower[1] == 0 or exact < 0
        proved += bool(lower.any())
    assert wrong > 10  # the test would be empty otherwise
    assert proved < 200
