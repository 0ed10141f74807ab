"""Weights from npy, npz and safetensors; damaged and dangerous files."""

from __future__ import annotations

import json

import numpy as np
import pytest

from xpipe.argmaxability import read_weights
from xpipe.argmaxability.weights import tensor_names
from xpipe.errors import ConfigError, DataError

W = np.random.default_rng(0).standard_normal((7, 3))


def write_safetensors(path, tensors, *, tail=b"", header=None):
    """By hand: length of the header, header, bytes. tensors: name -> (type, shape, bytes)."""
    about, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (kind, shape, content) in tensors.items():
        about[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(about).encode() if header is None else header
    path.write_bytes(len(text).to_bytes(8, "little") + text + data + tail)
    return str(path)


def test_npy_and_npz(tmp_path):
    for dtype in (np.float64, np.float32, np.float16):
        np.save(tmp_path / "W.npy", W.astype(dtype))
        found = read_weights(str(tmp_path / "W.npy"))
        assert found.dtype == dtype
        assert (found == W.astype(dtype)).all()
    np.savez(tmp_path / "one.npz", weight=W)
    assert (read_weights(str(tmp_path / "one.npz")) == W).all()
    np.savez_compressed(tmp_path / "two.npz", weight=W, bias=W[:, 0])
    assert (read_weights(str(tmp_path / "two.npz"), "bias") == W[:, 0]).all()


@pytest.mark.parametrize(("kind", "dtype"), [("F64", "<f8"), ("F32", "<f4"), ("F16", "<f2"), ("I64", "<i8")])
def test_safetensors(tmp_path, kind, dtype):
    stored = (W * 10).astype(dtype)
    tensors = {"other": ("F32", (2,), bytes(8)), "fc.weight": (kind, W.shape, stored.tobytes())}
    path = write_safetensors(tmp_path / "m.safetensors", tensors)
    found = read_weights(path, "fc.weight")
    assert found.dtype == np.dtype(dtype).newbyteorder("=")
    assert (found == stored).all()


def test_names_of_tensors(tmp_path):
    tensors = {"bias": ("F32", (2,), bytes(8)), "W": ("F32", (2, 1), bytes(8))}
    assert tensor_names(write_safetensors(tmp_path / "m.safetensors", tensors)) == ["bias", "W"]
    with pytest.raises(DataError, match="not a readable safetensors file"):
        tensor_names(write_safetensors(tmp_path / "bad.safetensors", {}, header=b"{"))


def test_bfloat16_is_widened(tmp_path):
    whole = np.array([[1.0, -2.5], [0.15625, 3e38]], dtype=np.float32)
    halves = (whole.view(np.uint32) >> 16).astype("<u2")
    path = write_safetensors(tmp_path / "m.safetensors", {"w": ("BF16", (2, 2), halves.tobytes())})
    found = read_weights(path)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, whole, rtol=2**-7)
    assert (found[0] == whole[0]).all()


def test_agrees_with_the_safetensors_package(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    safetensors.save_file({"a": W, "b": W.astype(np.float32)}, str(tmp_path / "m.safetensors"))
    assert (read_weights(str(tmp_path / "m.safetensors"), "a") == W).all()


def test_a_name_must_be_said_and_be_there(tmp_path):
    np.savez(tmp_path / "two.npz", weight=W, bias=W[:, 0])
    tensors = {"head.weight": ("F64", W.shape, W.tobytes()), "head.bias": ("F64", (7,), W[:, 0].tobytes())}
    path = write_safetensors(tmp_path / "m.safetensors", tensors)
    with pytest.raises(ConfigError, match="holds 2 arrays") as error:
        read_weights(path)
    assert "head.weight 7x3, head.bias 7" in str(error.value)
    with pytest.raises(ConfigError, match="holds 2 arrays"):
        read_weights(str(tmp_path / "two.npz"))
    with pytest.raises(ConfigError, match=r"no array 'head\.wieght'") as error:
        read_weights(path, "head.wieght")
    assert "did you mean 'head.weight'?" in str(error.value)
    np.save(tmp_path / "W.npy", W)
    with pytest.raises(ConfigError, match="without a name"):
        read_weights(str(tmp_path / "W.npy"), "weight")
    with pytest.raises(ConfigError, match=r"not '\.pt'"):
        read_weights(str(tmp_path / "model.pt"))


def test_pickles_are_not_loaded(tmp_path):
    np.save(tmp_path / "W.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="not a readable npy"):
        read_weights(str(tmp_path / "W.npy"))


def test_damaged_files_are_refused(tmp_path):
    np.save(tmp_path / "W.npy", W)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "W.npy").read_bytes()[:-9])
    np.savez(tmp_path / "W.npz", W=W)
    (tmp_path / "cut.npz").write_bytes((tmp_path / "W.npz").read_bytes()[:-60])
    (tmp_path / "npy.npz").write_bytes((tmp_path / "W.npy").read_bytes())
    (tmp_path / "text.npy").write_text("1 2 3")
    (tmp_path / "empty.npy").write_bytes(b"")
    for name in ("cut.npy", "cut.npz", "npy.npz", "text.npy", "empty.npy"):
        with pytest.raises(DataError, match="not a readable"):
            read_weights(str(tmp_path / name))
    with pytest.raises(DataError, match="no such file"):
        read_weights(str(tmp_path / "missing.npy"))


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (b"{}" + b" " * 8, "do not fill the file"),
        (b"{not json", "Expecting"),
        (b'{"w": {"dtype": "F64", "shape": [2], "data_offsets": [0, 99]}}', "cannot hold"),
        (b'{"w": {"dtype": "F64", "shape": [2], "data_offsets": [-8, 8]}}', "data_offsets"),
        (b'{"w": {"dtype": "F64", "shape": [-2], "data_offsets": [0, 16]}}', "shape"),
        (b'{"w": {"dtype": "Q4", "shape": [2], "data_offsets": [0, 16]}}', "unknown type 'Q4'"),
        (b'{"w": {"shape": [2]}}', "w"),
        (b'{"w": {"dtype": "F64", "shape": [99999999, 99999999], "data_offsets": [0, 16]}}', "cannot hold"),
        (b'{"w": {"dtype": "F64", "shape": [' + b"9" * 5000 + b'], "data_offsets": [0, 16]}}', "JSON"),
        (b"[" * 100_000, "nested"),
        (b"[1]", "dictionary"),
    ],
)
def test_safetensors_headers_that_lie_are_refused(tmp_path, header, words):
    path = write_safetensors(tmp_path / "m.safetensors", {}, header=header, tail=bytes(16))
    with pytest.raises((DataError, ConfigError), match=r"readable|holds") as error:
        read_weights(path)
    assert words in str(error.value)


def test_a_safetensors_file_too_short_for_its_header_is_refused(tmp_path):
    for content in (b"", b"\x10", (10**9).to_bytes(8, "little") + b"{}"):
        (tmp_path / "m.safetensors").write_bytes(content)
        with pytest.raises(DataError, match="safetensors"):
            read_weights(str(tmp_path / "m.safetensors"))
