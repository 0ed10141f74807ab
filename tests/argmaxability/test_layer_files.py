"""The bias that lies beside the weights: used where it fits, always named, never guessed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tests.argmaxability.oracles import as_rows
from tests.argmaxability.test_command import call
from tests.argmaxability.test_weights import write_safetensors
from xpipe.argmaxability import check
from xpipe.argmaxability.layer_files import read_layer
from xpipe.argmaxability.options import NO_BIAS
from xpipe.argmaxability.verdicts import read_verdicts
from xpipe.errors import ConfigError

W = np.random.default_rng(0).standard_normal((7, 3))
B = np.random.default_rng(1).standard_normal(7)


def write(folder, ending, arrays):
    if ending == "npz":
        np.savez(folder / "m.npz", **arrays)
        return str(folder / "m.npz")
    tensors = {name: ("F64", array.shape, array.tobytes()) for name, array in arrays.items()}
    return write_safetensors(folder / "m.safetensors", tensors)


@pytest.mark.parametrize("ending", ["npz", "safetensors"])
@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("2.weight", "2.bias"), ("W", "bias"), ("W", "b"), ("weight", "bias"), ("kernel", "bias"),
        ("fc_weight", "fc_bias"),
        ("head.W", "head.b"), ("out.kernel", "out.bias"), ("W2", "b2"), ("classifier.weight", "output_bias"),
    ],
)  # fmt: skip
def test_a_bias_beside_the_weights_is_used_and_named(tmp_path, ending, key, name):
    others = {"0.weight": np.ones((7, 2)), "0.bias": np.ones(7)} if "." in key else {}
    path = write(tmp_path, ending, {key: W, name: B, **others})
    layer = read_layer(path, key)
    assert np.array_equal(layer.bias, B)
    assert layer.bias_told == f"bias: {name} (7 numbers)"
    left = read_layer(path, key, NO_BIAS)
    assert left.bias is None
    assert name in left.bias_told


def test_a_bias_that_does_not_fit_is_mentioned(tmp_path):
    path = write(tmp_path, "npz", {"fc.weight": W, "fc.bias": B[:3]})
    layer = read_layer(path, "fc.weight")
    assert layer.bias is None
    assert "fc.bias 3 does not fit 7 labels" in layer.bias_told
    assert "transposed" in layer.bias_told


def test_a_bias_of_another_layer_is_not_taken(tmp_path):
    path = write(tmp_path, "npz", {"2.weight": W, "0.weight": np.ones((7, 2)), "0.bias": B})
    assert read_layer(path, "2.weight")[1:] == (None, "")


def test_several_that_fit_must_be_chosen_from(tmp_path):
    path = write(tmp_path, "safetensors", {"W": W, "bias": B, "b": B})
    with pytest.raises(ConfigError, match="several arrays may be the bias") as error:
        read_layer(path, "W")
    assert "--no-bias" in str(error.value)
    assert "bias 7, b 7" in str(error.value)
    assert read_layer(path, "W", bias_key="b").bias is not None
    with pytest.raises(ConfigError, match="both"):
        read_layer(path, "W", NO_BIAS, "b")


def test_the_command_uses_it_and_prints_no_escape_codes(tmp_path):
    path = write(tmp_path, "safetensors", {"2.weight": W, "2.bias": B})
    Y = as_rows([np.flatnonzero(B > 0), [0, 1]], 7)
    sp.save_npz(tmp_path / "Y.npz", Y)
    (tmp_path / "names.txt").write_text("".join(f"\x1b[31mred {i}[bold]\n" for i in range(7)))
    given = ("verify", "--weights", path, "--key", "2.weight", "--labels", tmp_path / "Y.npz", "--out")
    _, output = call(*given, tmp_path / "v.parquet", "--names", tmp_path / "names.txt")
    assert "bias: 2.bias (7 numbers)" in output
    assert "\x1b[31m" not in output
    assert check(W, Y, read_verdicts(str(tmp_path / "v.parquet")), B).all()
    _, output = call(*given, tmp_path / "w.parquet", "--no-bias")
    assert "bias: left out, although 2.bias fits" in output
    assert check(W, Y, read_verdicts(str(tmp_path / "w.parquet"))).all()
    with pytest.raises(ConfigError):
        call(*given, tmp_path / "w.parquet", "--no-bias", "--bias-key", "2.bias")
