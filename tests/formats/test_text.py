"""The text engine against its plain twin: bit for bit, for any block size and number of threads."""

from __future__ import annotations

import dataclasses
import gzip
import itertools
import json
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.formats import oracles, strategies
from xpipe.errors import DataError
from xpipe.formats import TextSource, blocks, decompress, open_text, parse_range, row_offsets
from xpipe.ground.sparse import to_matrix

WIDTHS = {"n_features": strategies.N_FEATURES, "n_labels": strategies.N_LABELS}
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def count_rows(text: str, kind: str) -> int:
    return len(oracles.find_rows(text.encode(), kind == "svmlight"))


def open_body(folder, text: str, kind: str, **options) -> TextSource:
    path = folder / "body.txt"
    path.write_bytes(text.encode())
    widths = WIDTHS if kind != "sparse" else {"n_features": WIDTHS["n_features"]}
    return open_text(str(path), kind, n_rows=count_rows(text, kind), header=False, **widths, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("text")


@pytest.mark.parametrize("kind", ["xmc", "sparse", "svmlight"])
@pytest.mark.parametrize("base", [0, 1])
@relaxed
@given(data=st.data())
def test_equal_to_the_twin_bit_for_bit(folder, kind, base, data):
    text = data.draw(strategies.files(kind, base, base))
    if not text:
        return
    source = open_body(folder, text, kind, index_base=base, label_base=base)
    X, Y = oracles.parse_lines(text, kind, *WIDTHS.values(), index_base=base, label_base=base)
    threads, block_size = data.draw(st.sampled_from([(1, 1), (1, 7), (1, 1 << 20), (2, 16), (3, 64)]))
    found = parse_range(source, threads=threads, block_size=block_size)
    oracles.assert_same(to_matrix(found.features, source.n_features), X)
    if kind == "sparse":
        assert found.labels is None
    else:
        oracles.assert_same(to_matrix(found.labels, source.n_labels), Y)
    assert found.samples.tolist() == list(range(X.shape[0]))
    assert found.rejects == []


@relaxed
@given(st.lists(strategies.numbers, min_size=1, max_size=40))
def test_every_number_is_float32_of_pythons_float(folder, numbers):
    path = folder / "numbers.txt"
    path.write_text(f"1 {len(numbers)}\n" + " ".join(f"{i}:{number}" for i, number in enumerate(numbers)))
    source = open_text(str(path), "sparse", header=True)
    wanted = np.array([oracles.to_float32(number) for number in numbers], np.float32)
    np.testing.assert_array_equal(parse_range(source).features.values.view(np.uint32), wanted.view(np.uint32))


def test_many_random_numbers_of_every_length(folder):
    draw = random.Random(0)
    numbers = [
        f"{draw.choice(['', '-'])}{draw.randrange(10 ** draw.randint(1, 24))}"
        + (f".{draw.randrange(10 ** draw.randint(1, 20))}" if draw.random() < 0.7 else "")
        + (f"e{draw.randint(-70, 13)}" if draw.random() < 0.7 else "")
        for _ in range(40_000)
    ]
    numbers = [number for number in numbers if strategies.finite(number)]
    path = folder / "many.txt"
    path.write_text(f"1 {len(numbers)}\n" + " ".join(f"{i}:{number}" for i, number in enumerate(numbers)))
    wanted = np.array([oracles.to_float32(number) for number in numbers], np.float32)
    found = parse_range(open_text(str(path), "sparse", header=True)).features.values
    np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32))


def test_more_midpoints_in_a_row_than_the_list_of_unsure_values_holds(folder):
    bits = np.random.default_rng(0).integers(1, 0x7F000000, 3000)
    numbers = [strategies._near_midpoint(int(each), 0) for each in bits]
    order = np.random.default_rng(1).permutation(len(numbers))
    path = folder / "midpoints.txt"
    path.write_text(f"1 {len(numbers)}\n" + " ".join(f"{i}:{numbers[i]}" for i in order))
    wanted = np.array([oracles.to_float32(number) for number in numbers], np.float32)
    found = parse_range(open_text(str(path), "sparse", header=True)).features
    np.testing.assert_array_equal(found.indices, np.arange(len(numbers)))
    np.testing.assert_array_equal(found.values.view(np.uint32), wanted.view(np.uint32))


@pytest.mark.parametrize(
    "number", ["3152521596064208e23", "3223959285049710e23", "8488691705110795e-23", "4989798574328574e-24"]
)
def test_powers_of_ten_that_are_no_doubles(folder, number):
    """One operation with a rounded power of ten would end on the wrong side of a float32 midpoint."""
    path = folder / "powers.txt"
    path.write_text(f"1 1\n0:{number}\n")
    (found,) = parse_range(open_text(str(path), "sparse", header=True)).features.values
    assert found == oracles.to_float32(number)


def test_values_at_the_edge_of_float32(folder):
    edge = 2**128 - 2**103  # from here on a double rounds to infinity
    below = str(edge - 2**75)  # the double before it
    path = folder / "edge.txt"
    path.write_text(f"1 9\n1:{below} 0:-{below} 2:3.4028235e38\n")
    found = parse_range(open_text(str(path), "sparse", header=True)).features.values
    most = np.finfo(np.float32).max
    assert found.tolist() == [-most, most, most]
    path.write_text(f"2 9\n1:{below} 2:1 4:{below}\n0:{below} 3:{edge}\n")
    rows = parse_range(open_text(str(path), "sparse", header=True), on_bad_row="drop")
    assert [(each.row, each.token) for each in rows.rejects] == [(1, f"3:{edge}")]
    assert rows.features.values.tolist() == [most, 1.0, most]


@pytest.mark.parametrize("kind", ["xmc", "sparse", "svmlight"])
@relaxed
@given(data=st.data())
def test_ranges_of_rows_put_together_are_the_whole(folder, kind, data):
    text = data.draw(strategies.files(kind))
    if not text:
        return
    every = data.draw(st.integers(1, 4))
    source = open_body(folder, text, kind)
    offsets, n_rows = row_offsets(source, every)
    starts = oracles.find_rows(text.encode(), kind == "svmlight")
    assert offsets.tolist() == [*starts[::every], len(text.encode())]
    assert offsets.dtype == np.int64
    assert n_rows == len(starts)
    whole = parse_range(source)
    pieces = [
        parse_range(source, int(start), int(stop), first * every)
        for first, (start, stop) in enumerate(itertools.pairwise(offsets))
    ]
    values = [piece.features.values for piece in pieces]
    np.testing.assert_array_equal(np.concatenate([*values, []]), whole.features.values)
    np.testing.assert_array_equal(np.concatenate([piece.samples for piece in pieces] or [[]]), whole.samples)


def test_row_offsets_across_small_blocks(folder, monkeypatch):
    text = "".join(f"1 {i}:1\n" for i in range(30))
    source = open_body(folder, text, "xmc")
    wanted = row_offsets(source, 4)
    monkeypatch.setattr(blocks.LineReader.__init__, "__defaults__", (None, 5, "the text"))
    found = row_offsets(source, 4)
    assert found[0].tolist() == wanted[0].tolist()
    assert found[1] == wanted[1] == 30


def test_row_offsets_notice_a_wrong_header(folder):
    path = folder / "short.txt"
    path.write_text("3 5 5\n1 1:1\n2 2:2\n")
    with pytest.raises(DataError, match=r"2 rows instead of 3"):
        row_offsets(open_text(str(path), "xmc", header=True), 10)


def test_a_source_travels_as_json(folder):
    source = open_body(folder, "1 2:3\n", "xmc")
    assert TextSource(**json.loads(json.dumps(dataclasses.asdict(source)))) == source


def test_a_row_of_200_000_features_in_small_blocks(folder):
    n = 200_000
    order = np.random.default_rng(0).permutation(n)
    path = folder / "wide.txt"
    path.write_text(f"2 {n} 3\n1 " + " ".join(f"{i}:{i}.5" for i in order) + "\n2 7:1\n")
    source = open_text(str(path), "xmc", header=True)
    for threads in (1, 2):
        rows = parse_range(source, threads=threads, block_size=1000)
        np.testing.assert_array_equal(rows.features.indices, [*range(n), 7])
        np.testing.assert_array_equal(rows.features.values[:-1], np.arange(n, dtype=np.float32) + 0.5)


def test_lines_of_a_range_after_comments(folder):
    text = "# head\n1 1:1\n# between\n2 2:2\n3 3:x\n"
    source = open_body(folder, text, "svmlight")
    offsets, n_rows = row_offsets(source, 1)
    assert n_rows == 3
    with pytest.raises(DataError, match=r"body\.txt:5, token '3:x'"):
        parse_range(source, int(offsets[2]), int(offsets[3]), 2)
    (reject,) = parse_range(source, on_bad_row="drop").rejects
    assert (reject.row, reject.line, reject.token, reject.text) == (2, 5, "3:x", "3 3:x")


def test_dropping_is_the_same_for_any_blocks_and_threads(folder):
    draw = random.Random(3)
    lines = [f"{i % 12} {i % 40}:{draw.choice(['1', 'x', '2', 'inf', '3'])}" for i in range(300)]
    source = open_body(folder, "\n".join(lines) + "\n", "xmc")
    wanted = [i for i, line in enumerate(lines) if line[-1] not in "xf"]
    results = [
        parse_range(source, on_bad_row="drop", threads=threads, block_size=size)
        for threads, size in ((1, 1 << 20), (1, 9), (2, 50), (3, 200))
    ]
    for rows in results:
        assert rows.samples.tolist() == wanted
        assert rows.rejects == results[0].rejects
        assert [each.row for each in rows.rejects] == [i for i in range(300) if i not in set(wanted)]
        np.testing.assert_array_equal(rows.features.values, results[0].features.values)
        np.testing.assert_array_equal(rows.labels.indices, [i % 12 for i in wanted])


def test_the_first_error_in_the_file_wins(folder):
    lines = [f"1 1:{'x' if i in (150, 160, 290) else 1}" for i in range(300)]
    source = open_body(folder, "\n".join(lines), "xmc")
    for _ in range(5):
        with pytest.raises(DataError, match=r"body\.txt:151, token '1:x'"):
            parse_range(source, threads=3, block_size=64)


def test_gzip_is_streamed_and_unpacked(folder):
    text = b"3 5 5\n1 1:1\n\n2 2:2\n"
    packed, plain = folder / "a.txt.gz", folder / "a.txt"
    packed.write_bytes(gzip.compress(text))
    source = open_text(str(packed), "xmc", header=True)
    assert source.compressed
    rows = parse_range(source, block_size=4)
    assert rows.features.indptr.tolist() == [0, 1, 1, 2]
    offsets, n_rows = row_offsets(source, 1)
    assert offsets.tolist() == [6, 12, 13, 19]
    assert n_rows == 3
    assert parse_range(source, 13, 19, 2).features.indices.tolist() == [2]
    decompress(str(packed), str(plain))
    assert plain.read_bytes() == text
    with open(plain, "wb") as stream:
        decompress(str(packed), stream)
    assert plain.read_bytes() == text


def test_errors_name_the_packed_file_of_an_unpacked_copy(folder):
    source = open_body(folder, "1 1:x\n", "xmc")
    with pytest.raises(DataError, match=r"train\.txt\.gz:1, token '1:x'"):
        parse_range(dataclasses.replace(source, shown_as="train.txt.gz"))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda raw: raw[:-9], "cut short"),
        (lambda raw: raw[:20], "cut short"),
        (lambda raw: raw[:30] + b"\xff\xff\xff" + raw[33:], "damaged"),
    ],
)
def test_a_broken_gzip_is_an_error(folder, damage, says):
    text = "2 5 5\n" + "".join(f"1 1:{i}\n" for i in range(2))
    path = folder / "broken.txt.gz"
    path.write_bytes(damage(gzip.compress(text.encode() * 3, mtime=0)))
    for act in (lambda: parse_range(open_text(str(path), "xmc", header=True)),
                lambda: decompress(str(path), str(folder / "out.txt"))):  # fmt: skip
        with pytest.raises(DataError, match=says):
            act()
    assert not (folder / "out.txt").exists()


def test_a_name_in_gz_that_is_not_gzip(folder):
    path = folder / "fake.txt.gz"
    path.write_text("1 1 1\n\n")
    with pytest.raises(DataError, match="is not gzip"):
        open_text(str(path), "xmc", header=True)


def test_a_url_is_read_like_a_file(folder):
    import fsspec

    with fsspec.open("memory://formats/rows.txt", "wb") as stream:
        stream.write(b"2 5 5\n1 1:1\n2 2:2\n")
    source = open_text("memory://formats/rows.txt", "xmc", header=True)
    assert parse_range(source, block_size=3).features.values.tolist() == [1, 2]
    assert row_offsets(source, 1)[0].tolist() == [6, 12, 18]
