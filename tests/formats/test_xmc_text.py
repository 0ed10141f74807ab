"""read_xmc and write_xmc: every odd file gives the right matrix or an error with file, line, token and what to try."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.formats import oracles, strategies
from xpipe.errors import DataError
from xpipe.formats import read_xmc, write_xmc

HEAD = "2 9 5\n"


@pytest.fixture
def read(tmp_path):
    """Write bytes to a file and read them."""

    def read_text(text: str | bytes, **options):
        path = tmp_path / "train.txt"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_xmc(str(path), **options)

    return read_text


def dense(X: sp.csr_matrix) -> list[list[tuple[int, float]]]:
    return [
        list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))
        for a, b in zip(X.indptr, X.indptr[1:], strict=False)
    ]


def labels_of(Y: sp.csr_matrix) -> list[list[int]]:
    return [Y.indices[a:b].tolist() for a, b in zip(Y.indptr, Y.indptr[1:], strict=False)]


@pytest.mark.parametrize(
    ("text", "labels", "features"),
    [
        ("2 9 5\n1,2 3:0.5 4:1\n0 8:2\n", [[1, 2], [0]], [[(3, 0.5), (4, 1.0)], [(8, 2.0)]]),
        ("2 9 5\n 3:1\n3:1\n", [[], []], [[(3, 1.0)], [(3, 1.0)]]),  # no labels, with and without the space
        ("2 9 5\n1,2\n4 \n", [[1, 2], [4]], [[], []]),  # no features
        ("2 9 5\n1 3:1  \t\n2 3:1 \n", [[1], [2]], [[(3, 1.0)], [(3, 1.0)]]),  # spaces at the end
        ("2 9 5\n1\t3:1\t\t4:2\n\t5:1\n", [[1], []], [[(3, 1.0), (4, 2.0)], [(5, 1.0)]]),  # tabs
        ("2 9 5\r\n1 3:1\r\n2 3:1 \r\n", [[1], [2]], [[(3, 1.0)], [(3, 1.0)]]),  # CRLF
        ("2 9 5\n1 3:1\n2 3:1", [[1], [2]], [[(3, 1.0)], [(3, 1.0)]]),  # no newline at the end
        ("2 9 5\n1 3:1\r\n2 3:1\r", [[1], [2]], [[(3, 1.0)], [(3, 1.0)]]),  # CRLF, the last one cut
        ("2 9 5\n\n1 3:1\n", [[], [1]], [[], [(3, 1.0)]]),  # a blank line is a sample
        ("2 9 5\n1 3:1\n \t\n", [[1], []], [[(3, 1.0)], []]),
        (
            "2 9 5\n1 7:1 3:2 0:3\n4,0,2 3:1\n",
            [[1], [0, 2, 4]],
            [[(0, 3.0), (3, 2.0), (7, 1.0)], [(3, 1.0)]],
        ),  # unsorted
        ("2 9 5\n1 3:0 4:-0.0\n2 3:12.\n", [[1], [2]], [[(3, 0.0), (4, -0.0)], [(3, 12.0)]]),  # zeros are kept
        ("2 9 5\n01,002 003:1\n2 3:+.5e1\n", [[1, 2], [2]], [[(3, 1.0)], [(3, 5.0)]]),
        (" 2\t9  5 \n1 3:1\n2 3:1\n", [[1], [2]], [[(3, 1.0)], [(3, 1.0)]]),
        (b"\xef\xbb\xbf2 9 5\n1 3:1\n2 3:1\n", [[1], [2]], [[(3, 1.0)], [(3, 1.0)]]),  # byte order mark
        ("0 9 5\n", [], []),
        ("0 9 5", [], []),
    ],
)
def test_odd_files_that_are_right(read, text, labels, features):
    X, Y = read(text)
    assert X.shape == (len(labels), 9)
    assert Y.shape == (len(labels), 5)
    assert labels_of(Y) == labels
    assert dense(X) == features
    assert X.dtype == Y.dtype == np.float32
    assert X.has_canonical_format
    assert (Y.data == 1).all()


@pytest.mark.parametrize(
    ("line", "token", "says"),
    [
        ("abc 1:2", "abc", "label 'abc' is not a whole number"),
        ("1,abc 1:2", "abc", "label 'abc' is not a whole number"),
        ("5 1:2", "5", "label 5 is beyond the last one, 4"),
        ("-1 1:2", "-1", "label -1 is negative"),
        ("1.0 1:2", "1.0", "label '1.0' is not a whole number"),
        ("99999999999999999999999 1:2", "99999999999999999999999", "23 digits"),
        ("18446744073709551617 1:2", "18446744073709551617", "20 digits"),
        ("3,3 1:2", "3", "label 3 comes twice in one row"),
        ("3,1,2,03 1:2", "03", "label 3 comes twice in one row"),
        ("1, 1:2", "1,", "a comma without a label"),
        (",1 1:2", ",1", "a comma without a label"),
        ("1,,2 1:2", "1,,2", "a comma without a label"),
        (", 1:2", ",", "a comma without a label"),
        ("3:0.5,4 1:2", "3:0.5,4", "a label with a weight"),
        ("4,3:0.5 1:2", "4,3:0.5", "a label with a weight"),
        ("1 9:2", "9:2", "feature 9 is beyond the last one, 8"),
        ("1 4294967297:2", "4294967297:2", "beyond the last one"),
        ("1 18446744073709551617:2", "18446744073709551617:2", "20 digits"),
        ("1 -1:2", "-1:2", "feature -1 is negative"),
        ("1 3:1 3:2", "3:2", "feature 3 comes twice in one row"),
        ("1 3:1 5:1 03:2 1:1", "03:2", "feature 3 comes twice in one row"),
        ("1 3:", "3:", "feature 3 without a value"),
        ("1 :4", ":4", "a value without its feature"),
        (":4", ":4", "a value without its feature"),
        (":", ":", "a value without its feature"),
        ("1 3:4:5", "3:4:5", "more than one ':'"),
        ("1 3:nan", "3:nan", "the value nan is not finite"),
        ("1 3:inf", "3:inf", "the value inf is not finite"),
        ("1 3:-Infinity", "3:-Infinity", "the value -Infinity is not finite"),
        ("1 3:1e400", "3:1e400", "too large for float32"),
        ("1 3:1e39", "3:1e39", "too large for float32"),
        ("1 3:-3.4028236e38", "3:-3.4028236e38", "too large for float32"),
        ("1 3:" + "9" * 50, "3:" + "9" * 50, "too large for float32"),
        ("1 3:1_000", "3:1_000", "the value is not a number"),
        ("1 3:0x1", "3:0x1", "the value is not a number"),
        ("1 3:0,5", "3:0,5", "the value is not a number"),
        ("1 3:1e", "3:1e", "the value is not a number"),
        ("1 3:.", "3:.", "the value is not a number"),
        ("1 3:-", "3:-", "the value is not a number"),
        ("1 3:1.2.3", "3:1.2.3", "the value is not a number"),
        ("1 2 3:1", "2", "a token without ':'"),
        ("1 x:1", "x:1", "feature 'x' is not a whole number"),
        ("1 +3:1", "+3:1", "feature '+3' is not a whole number"),
        ("1 3:1 # no comments here", "#", "a token without ':'"),
        ("1 3:1\x00 4:1", "3:1\x00", "a NUL byte"),
        ("1\x00 4:1", "1\x00", "a NUL byte"),
        ("1 3:1\r4:1", "\r", "a carriage return inside a line"),
        ("1 " + "7" * 100, "7" * 57 + "...", "a token without ':'"),
        ("1 é:1", "é:1", "is not a whole number"),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_bad_rows_name_file_line_and_token(read, line, token, says, threads):
    text = "3 9 5\n1 1:1\n" + line + "\n2 2:2\n"
    with pytest.raises(DataError) as caught:
        read(text, threads=threads)
    error = caught.value
    assert says in error.what
    assert error.where.endswith(f"train.txt:3, token {token!r}")
    assert error.fix
    rejects = []
    X, Y = read(text, threads=threads, on_bad_row="drop", rejects=rejects)
    assert dense(X) == [[(1, 1.0)], [(2, 2.0)]]
    assert labels_of(Y) == [[1], [2]]
    ((row, number, found, reason, start),) = rejects
    assert (row, number, found) == (1, 3, token)
    assert says in reason
    assert start == (line if len(line) <= 200 else line[:197] + "...")


@pytest.mark.parametrize(
    ("text", "what", "where", "why"),
    [
        ("", "the file is empty", "train.txt", ""),
        (
            "4 5\n1:1\n",
            "the header must be `n_samples n_features n_labels`",
            "train.txt:1, found '4 5'",
            "begin a split file",
        ),
        ("4 5 6 7\n1:1\n", "the header must be", "train.txt:1, found '4 5 6 7'", "four numbers begin no format known"),
        ("7\n1:1\n", "the header must be", "train.txt:1, found '7'", "one number"),
        ("1,2 3:4\n1 3:4\n", "the header must be", "train.txt:1, found '1,2 3:4'", "looks like a sample"),
        ("\n1 3:4\n", "the header must be", "train.txt:1, found ''", "blank"),
        ("a b c\n1 3:4\n", "the header must be", "train.txt:1, found 'a b c'", "not a line of whole numbers"),
        ("1 -2 3\n1 3:4\n", "the header must be", "train.txt:1, found '1 -2 3'", "not negative"),
        ("2 9 99999999999\n1 3:1\n1 3:1\n", "n_labels = 99,999,999,999 is not possible", "train.txt", "int32"),
        (HEAD, "0 rows instead of 2", "train.txt:1", "the header says 2 rows, the file has 0"),
        (HEAD + "1 3:1\n", "1 rows instead of 2", "train.txt:1", "the header says 2 rows, the file has 1"),
        (HEAD + "1 3:1\n" * 3, "3 rows instead of 2", "train.txt:1", "the header says 2 rows, the file has 3"),
        (HEAD + "1 3:1\n\n1 3:1\n\n", "4 rows instead of 2", "train.txt:1", "without labels and features: line 3, 5"),
        (HEAD + "1 3:1\n1 3:1\n\n\n\n \n", "6 rows instead of 2", "train.txt:1", "line 4, 5, 6 and maybe more"),
        (HEAD + "1 3:1\n1 3:1\n  ", "3 rows instead of 2", "train.txt:1", "line 4"),
        (HEAD + "1 3:1\n1 3:", "feature 3 without a value", "train.txt:3, token '3:'", "may have been cut short"),
        (HEAD + "1 3:1 5:0.\n", "1 rows instead of 2", "train.txt:1", "the file has 1"),
    ],
)
def test_bad_files(read, text, what, where, why):
    with pytest.raises(DataError) as caught:
        read(text)
    error = caught.value
    assert what in error.what
    assert error.where.endswith(where)
    assert why in error.why
    assert error.fix


def test_a_file_cut_anywhere_is_noticed_unless_its_last_token_is_still_whole(read):
    whole = "3 9 5\n1,2 3:0.5 4:1\n0 8:2.25\n3,4 5:1e-05 6:0.125\n"
    for cut in range(1, len(whole) - 1):
        start = whole[:cut]
        last = start.rpartition("\n")[2]
        if start.count("\n") == 3 and last:  # in the last row: only a broken token can tell
            continue
        with pytest.raises(DataError):
            read(start)
    with pytest.raises(DataError, match="cut short"):
        read(whole[: whole.index("1e-05") + 2])


def test_headerless_files(read):
    X, Y = read("1,2 3:1\n4 8:2\n", header=False, n_features=9, n_labels=5)
    assert (X.shape, Y.shape) == ((2, 9), (2, 5))
    with pytest.raises(DataError) as caught:
        read("1,2 3:1\n4 8:2\n", header=False)
    assert "n_features and n_labels must be given" in caught.value.what
    assert "n_features: the largest index seen is 8 (counted from 0), so at least 9" in caught.value.fix
    assert "n_labels: the largest index seen is 4 (counted from 0), so at least 5" in caught.value.fix
    with pytest.raises(DataError, match="n_labels must be given"):
        read("1,2 3:1\n", header=False, n_features=9)
    with pytest.raises(DataError, match=r"largest index seen is 8 .counted from 1., so at least 8"):
        read("1 8:1\n", header=False, n_labels=9, index_base=1)
    with pytest.raises(DataError) as caught:
        read("1 3:1\n\n1 3:1\n", header=False, n_features=9, n_labels=5)
    assert caught.value.what == "a blank line"
    assert caught.value.where.endswith("train.txt:2")
    assert "n_samples" in caught.value.fix
    X, _ = read("1 3:1\n\n1 3:1\n", header=False, n_samples=3, n_features=9, n_labels=5)
    assert X.shape == (3, 9)
    with pytest.raises(DataError, match="n_samples says 2 rows, the file has 3"):
        read("1 3:1\n\n1 3:1\n", header=False, n_samples=2, n_features=9, n_labels=5)
    with pytest.raises(DataError) as caught:
        read("2 9 5\n1 3:1\n1 3:1\n", header=False, n_features=9, n_labels=5)
    assert caught.value.where.endswith("train.txt:1, token '9'")
    assert "header=True" in caught.value.fix


def test_index_bases_are_told_never_guessed(read):
    X, Y = read("1 9 5\n1,5 1:1 9:2\n", index_base=1, label_base=1)
    assert dense(X) == [[(0, 1.0), (8, 2.0)]]
    assert labels_of(Y) == [[0, 4]]
    for line, option, token in (("1 0:1", "index_base", "0:1"), ("0 1:1", "label_base", "0")):
        with pytest.raises(DataError) as caught:
            read(f"1 9 5\n{line}\n", **{option: 1})
        assert f"{option}=0" in caught.value.fix
        assert caught.value.where.endswith(f"train.txt:2, token {token!r}")
    for line, option in (("1 9:1", "index_base"), ("5 1:1", "label_base")):
        with pytest.raises(DataError) as caught:
            read(f"1 9 5\n{line}\n")
        assert f"{option}=1" in caught.value.fix
    with pytest.raises(DataError, match="index_base must be 0 or 1"):
        read("1 9 5\n1 1:1\n", index_base=2)


def test_sizes_given_must_agree_with_the_header(read):
    read("1 9 5\n1 1:1\n", n_samples=1, n_features=9, n_labels=5)
    with pytest.raises(DataError, match="the header says n_features = 9, you say 8"):
        read("1 9 5\n1 1:1\n", n_features=8)


def test_dropping_is_never_silent(read):
    with pytest.raises(DataError, match="needs a list"):
        read("1 9 5\nx 1:1\n", on_bad_row="drop")
    with pytest.raises(DataError, match="'error' or 'drop'"):
        read("1 9 5\nx 1:1\n", on_bad_row="skip")
    with pytest.raises(DataError, match="1 rows instead of 2"):  # dropped rows count as rows of the file
        read("2 9 5\nx 1:1\n", on_bad_row="drop", rejects=[])


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(DataError, match="there is no file"):
        read_xmc(str(tmp_path / "none.txt"))
    with pytest.raises(DataError, match="is a folder"):
        read_xmc(str(tmp_path))


@settings(deadline=None)
@given(data=st.data(), base=st.sampled_from([0, 1]), name=st.sampled_from(["a.txt", "a.txt.gz"]))
def test_round_trip(tmp_path_factory, data, base, name):
    X = data.draw(strategies.matrices())
    Y = data.draw(strategies.matrices(n_rows=X.shape[0], ones=True))
    path = str(tmp_path_factory.getbasetemp() / name)
    write_xmc(path, X, Y, index_base=base, label_base=base)
    found = read_xmc(path, index_base=base, label_base=base)
    oracles.assert_same(found[0], X)
    oracles.assert_same(found[1], Y)


def test_gzip_bytes_do_not_depend_on_time_or_name(tmp_path):
    X = sp.csr_matrix(np.eye(3, dtype=np.float32))
    write_xmc(str(tmp_path / "a.txt.gz"), X, X)
    write_xmc(str(tmp_path / "b.txt.gz"), X, X)
    raw = (tmp_path / "a.txt.gz").read_bytes()
    assert raw == (tmp_path / "b.txt.gz").read_bytes()
    assert gzip.decompress(raw) == b"3 3 3\n0 0:1\n1 1:1\n2 2:1\n"


def test_what_cannot_be_written_leaves_no_file(tmp_path):
    X = sp.csr_matrix(np.eye(3, dtype=np.float32))
    path = tmp_path / "a.txt"
    with pytest.raises(DataError, match=r"label weight 0.5") as caught:
        write_xmc(str(path), X, X * 0.5)
    assert caught.value.where == "row 0, label 0"
    with pytest.raises(DataError, match="do not fit"):
        write_xmc(str(path), X, X[:2])
    assert list(tmp_path.iterdir()) == []
