"""Headers of safetensors files: those of the reference implementation are read, every other one is a DataError."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from safetensors.numpy import save

from xpipe.errors import DataError
from xpipe.ground.safetensors_header import parse_header, read_header

ARRAYS = {"W": np.arange(6, dtype=np.float32).reshape(2, 3), "bias": np.zeros(2, np.float64), "none": np.zeros((0, 7))}


def made(header: object, tail: bytes = b"", *, length: int | None = None) -> bytes:
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(content) if length is None else length).to_bytes(8, "little") + content + tail


def entry(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_what_the_reference_wrote_is_read():
    content = save(ARRAYS, {"about": "us"})
    found = parse_header(content, where="a.safetensors")
    assert found.metadata == {"about": "us"}
    assert found.tensors.keys() == ARRAYS.keys()
    for name, place in found.tensors.items():
        array = np.frombuffer(content[place.begin : place.end], ARRAYS[name].dtype).reshape(place.shape)
        np.testing.assert_array_equal(array, ARRAYS[name])


def test_a_file_without_tensors_is_read():
    assert parse_header(save({}), where="a").tensors == {}


WRONG = {
    "empty": b"",
    "seven bytes": b"1234567",
    "terabytes of header": made({}, length=2**40),
    "2^64 - 1 bytes of header": made({}, length=2**64 - 1),
    "deep": made(b'{"W":' + b"[" * 100_000),
    "deep inside": made(b'{"W":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001),
    "digits": made(b'{"W":{"dtype":"F32","shape":[' + b"9" * 10_000 + b'],"data_offsets":[0,8]}}', b"\0" * 8),
    "no JSON": made(b"\xff\xfe\x00 oops"),
    "a list": made([1, 2]),
    "a number": made(b"12"),
    "NaN": made(b'{"W":{"dtype":"F32","shape":[NaN],"data_offsets":[0,8]}}', b"\0" * 8),
    "terabytes": made({"W": entry(shape=[2**40], offsets=[0, 2**42])}, b"\0" * 8),
    "a product that wraps to 8 bytes": made({"W": entry(shape=[2**32, 2**32, 2])}, b"\0" * 8),
    "more numbers than bytes": made({"W": entry(shape=[3])}, b"\0" * 8),
    "negative length": made({"W": entry(shape=[-2])}, b"\0" * 8),
    "two negative lengths": made({"W": entry(shape=[-1, -2])}, b"\0" * 8),
    "true": made({"W": entry(shape=[True, 2])}, b"\0" * 8),
    "a float": made({"W": entry(shape=[2.0])}, b"\0" * 8),
    "a text": made({"W": entry(shape="2")}, b"\0" * 8),
    "offsets reversed": made({"W": entry(offsets=[8, 0])}, b"\0" * 8),
    "negative offset": made({"W": entry(offsets=[-8, 0])}, b"\0" * 8),
    "one offset": made({"W": entry(offsets=[8])}, b"\0" * 8),
    "offsets beyond the file": made({"W": entry(offsets=[8, 16])}, b"\0" * 8),
    "overlap": made({"a": entry(), "b": entry(offsets=[4, 12])}, b"\0" * 12),
    "the same bytes twice": made({"a": entry(), "b": entry()}, b"\0" * 8),
    "a hole": made({"a": entry(), "b": entry(offsets=[12, 20])}, b"\0" * 20),
    "bytes left over": made({"a": entry()}, b"\0" * 9),
    "unknown type": made({"W": entry(dtype="F99")}, b"\0" * 8),
    "type of another type": made({"W": entry(dtype=7)}, b"\0" * 8),
    "keys missing": made({"W": {"dtype": "F32"}}, b"\0" * 8),
    "a tensor of texts": made({"W": {"dtype": "F32", "shape": "2", "data_offsets": "0"}}),
    "a tensor that is null": made({"W": None}),
    "metadata of numbers": made({"__metadata__": {"a": 1}}),
    "metadata that is a tensor": made({"__metadata__": entry()}, b"\0" * 8),
    "metadata that is a list": made({"__metadata__": []}),
    "many dimensions": made({"W": entry(shape=[1] * 99 + [2])}, b"\0" * 8),
}


@pytest.mark.parametrize("content", WRONG.values(), ids=WRONG.keys())
def test_every_other_file_is_a_data_error(content):
    with pytest.raises(DataError) as caught:
        parse_header(content, where="folder/a.safetensors")
    assert "folder/a.safetensors" in str(caught.value)
    assert len(str(caught.value)) < 1500


def test_a_header_longer_than_the_bound_is_not_read(monkeypatch):
    monkeypatch.setattr("xpipe.ground.safetensors_header.LONGEST_HEADER", 10)
    with pytest.raises(DataError, match="more than 10"):
        parse_header(save(ARRAYS), where="a")


def test_no_mutation_gives_anything_but_a_header_or_a_data_error():
    content, rng = save(ARRAYS, {"about": "us"}), random.Random(0)
    for _ in range(500):
        changed = bytearray(content)
        for _ in range(rng.randint(1, 3)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        cut = bytes(changed[: rng.choice([len(changed), rng.randrange(len(changed))])])
        try:
            found = parse_header(cut, where="a")
        except DataError:
            continue
        assert all(8 <= place.begin <= place.end <= len(cut) for place in found.tensors.values())


def test_a_stream_that_is_shorter_than_its_size_is_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(save(ARRAYS)[:40])
    with path.open("rb") as stream, pytest.raises(DataError, match="cut short"):
        read_header(stream, 10_000, where=str(path))
