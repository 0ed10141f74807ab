"""Lines of a text table, plain, gzip or zstd, decoded from UTF-8 and numbered, in bounded memory.

Holds no grammar of lines: `table_csv` and `table_jsonl` do.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa

from xpipe.errors import DataError
from xpipe.formats.blocks import GZIP_MAGIC, LONGEST_LINE, open_stream, too_long
from xpipe.formats.table_files import TableFile

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
MAGIC = {"gzip": GZIP_MAGIC, "zstd": ZSTD_MAGIC}
PARQUET_MAGIC = b"PAR1"
MARKS = {b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
ENDS = {"gzip": ".gz", "zstd": ".zst"}


def lines_of_table(file: TableFile) -> Iterator[str]:
    """The lines of a text table in order, each with its end. Raises DataError for what is not UTF-8 text."""
    _check_start(file)
    number = 0
    with _open(file) as stream:
        while raw := stream.readline(LONGEST_LINE + 1):
            number += 1
            if len(raw) > LONGEST_LINE:
                raise too_long(file.path, number)
            if number == 1:
                raw = raw.removeprefix(b"\xef\xbb\xbf")
                if b"\0" in raw:  # cells may hold NUL, like those of Parquet
                    raise starts_with_nul(file.path, raw)
            try:
                yield raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise not_utf8(file.path, number, raw, error) from None


def starts_with_nul(path: str, raw: bytes) -> DataError:
    """The error of a first line with NUL bytes."""
    place = raw.index(b"\0")
    return DataError(
        "a NUL byte in the first line of a table",
        where=f"{path}:1, byte {place + 1} of the line, near {raw[max(0, place - 20) : place + 20]!r}",
        why="the file is UTF-16 or UTF-32 without its mark, or it is damaged",
        fix="convert it, such as iconv -f utf-16le -t utf-8; or export it again",
    )


def not_utf8(path: str, line: int, raw: bytes, error: UnicodeDecodeError) -> DataError:
    """The error of a line in another encoding."""
    near = raw[max(0, error.start - 20) : error.start + 20]
    return DataError(
        f"byte {raw[error.start]:#04x} is not UTF-8",
        where=f"{path}:{line}, byte {error.start + 1} of the line, near {near!r}",
        why="tables are read as UTF-8; the encoding is never guessed",
        fix="convert the file: iconv -f latin1 -t utf8",
    )


def _check_start(file: TableFile) -> None:
    """Raise DataError where the first bytes are those of another kind of file than its name says."""
    with open_stream(file.path) as stream:
        start: bytes = stream.read(4)
    found = next((name for name, magic in MAGIC.items() if start.startswith(magic)), None)
    if file.compression is not None and found != file.compression and start:
        raise DataError(
            f"the file is not {file.compression}", where=file.path, why=f"it starts with {start!r}",
            fix=f"rename it without {ENDS[file.compression]}, or copy it again",
        )  # fmt: skip
    if file.compression is None and found is not None:
        raise DataError(
            f"the file is {found}, not text", where=file.path, fix=f"rename it: its name must end in {ENDS[found]}"
        )
    if start == PARQUET_MAGIC:
        raise DataError("the file is Parquet, not text", where=file.path, fix="its name must end in .parquet")
    encoding = next((name for mark, name in MARKS.items() if start.startswith(mark)), None)
    if encoding is not None:
        raise DataError(
            f"the file is {encoding}, not UTF-8", where=file.path, why=f"it starts with the mark of {encoding}",
            fix=f"convert it: iconv -f {encoding.lower()} -t utf-8",
        )  # fmt: skip


@contextlib.contextmanager
def _open(file: TableFile) -> Iterator[IO[bytes]]:
    """The unpacked bytes of a text table."""
    if file.compression != "zstd":
        with open_stream(file.path, compressed=file.compression == "gzip") as stream:
            yield io.BufferedReader(stream) if file.compression == "gzip" else stream
        return
    with open_stream(file.path) as stream:
        try:
            packed: Any = pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "zstd")
            yield io.BufferedReader(packed, 1 << 20)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(
                "the zstd file is cut short or damaged", where=file.path, why=str(error)[:300],
                fix="copy or download it again; `zstd -t` tests it",
            ) from error  # fmt: skip
