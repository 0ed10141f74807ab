"""JSON from files: what fits comes back whole, everything else is one clear DataError."""

import pytest
from typing_extensions import TypedDict

from xpipe.errors import DataError
from xpipe.ground.checked_json import Count, InsidePath, parse_json, read_json


class Entry(TypedDict):
    path: InsidePath
    rows: Count


def test_fitting_json_keeps_keys_the_shape_does_not_name():
    assert parse_json(b'{"path": "a/b", "rows": 3, "more": [1]}', Entry, where="x.json")["more"] == [1]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"{",
        b"[]",
        b"null",
        b"3",
        b'{"path": "a"}',
        b'{"path": "a", "rows": -1}',
        b'{"path": "a", "rows": true}',
        b'{"path": "a", "rows": "3"}',
        b'{"path": "a", "rows": 1.0}',
        b'{"path": "a", "rows": 1e99}',
        b'{"path": "a", "rows": NaN}',
        b'{"path": "a", "rows": Infinity}',
        b'{"path": "a", "rows": 18446744073709551616}',
        b'{"path": "a", "rows": ' + b"9" * 5000 + b"}",
        b"[" * 200_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        *[
            b'{"rows": 1, "path": "%s"}' % path
            for path in (b"/etc", b"..", b"a/../b", b"a//b", b"", b".", b"a/.", b"a\\\\b", b"s3://b/c", b"a\\u0000")
        ],
    ],
    ids=range(28),
)
def test_anything_else_is_a_data_error_that_names_the_file(content):
    with pytest.raises(DataError) as caught:
        parse_json(content, Entry, where="folder/x.json", fix="write it again")
    assert caught.value.what.startswith("x.json")
    assert caught.value.where == "folder/x.json"
    assert len(str(caught.value)) < 800


def test_missing_files_and_folders_are_data_errors(tmp_path):
    for path in (tmp_path, tmp_path / "absent.json"):
        with pytest.raises(DataError, match="cannot be read"):
            read_json(str(path), Entry)
