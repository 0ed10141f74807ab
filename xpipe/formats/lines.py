"""Small text files line by line, and the errors of lines that are not right.

Holds no meaning of a line: `names`, `row_numbers` and `group_files` do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from xpipe.errors import DataError
from xpipe.formats.blocks import BLOCK_SIZE, is_compressed, open_stream
from xpipe.ground import files

LONGEST = 1 << 24  # bytes of one line: names and numbers are short


def lines_of(path: str) -> Iterator[tuple[int, bytes]]:
    """(number, content without its end) of each line of a file, plain or gzip, without a byte order mark."""
    path = os.fspath(path)
    compressed = is_compressed(path) if files.exists(path) else False
    tail, number = b"", 0
    with open_stream(path, compressed=compressed) as stream:
        while piece := stream.read(BLOCK_SIZE):
            lines = (tail + piece).split(b"\n")  # not splitlines(): a name may hold other line ends
            tail = lines.pop()
            if len(tail) > LONGEST:
                raise DataError(
                    f"a line of more than {LONGEST:,} bytes", where=f"{path}:{number + len(lines) + 1}",
                    why="one name or number stands on a line", fix="look at it: `head -c 300`; lines end in \\n",
                )  # fmt: skip
            for line in lines:
                number += 1
                yield number, _plain(line, number)
    if tail:
        yield number + 1, _plain(tail, number + 1)


def _plain(line: bytes, number: int) -> bytes:
    """A line without a carriage return at its end, and without the byte order mark of the file."""
    line = line.removesuffix(b"\r")
    return line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def whole_number(path: str, line: int, token: bytes) -> int:
    """The number of a token of digits. Raises DataError where it has too many digits."""
    if len(token) > 18:
        raise DataError(
            f"a number of {len(token)} digits", where=f"{path}:{line}", fix="two numbers may have run together"
        )
    return int(token)


def too_many_lines(path: str, what: str, line: int) -> DataError:
    """The error of a file with too many lines; the rest of the file is not read."""
    return DataError(what, where=f"{path}:{line}", fix="check that the file belongs to this dataset")


def bad_line(path: str, number: int, raw: bytes, why: str) -> DataError:
    """The error of a line that cannot be read."""
    shown = re.sub(r"\s+", " ", raw[:60].decode("utf-8", "backslashreplace"))
    return DataError("a line that cannot be read", where=f"{path}:{number}, {shown!r}", why=why, fix="correct the line")
