"""Streams of bytes (plain, gzip, any fsspec URL), and their blocks of whole lines, in bounded memory.

Holds no grammar of lines: that is `text` and its kernels.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any

from xpipe.errors import DataError
from xpipe.ground import files

GZIP_MAGIC = b"\x1f\x8b"
BLOCK_SIZE = 1 << 20  # bytes read at a time: a block and its parse stay in the processor's cache
LONGEST_LINE = 1 << 28  # bytes of one line of unpacked text: a row of 20 million features
DEFLATE_RATIO = 1032  # no deflate stream unpacks to more bytes than this for each of its own
_UNREADABLE = (errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EIO, errno.ESTALE)  # of the path, not of a target


@contextlib.contextmanager
def open_stream(path: str, *, start: int = 0, compressed: bool = False) -> Iterator[Any]:
    """A binary stream at byte `start` of the (unpacked) file. Raises DataError for missing files and broken gzip."""
    with contextlib.ExitStack() as stack:
        try:
            raw = stack.enter_context(files.open_read(path))
            stream = stack.enter_context(gzip.GzipFile(fileobj=raw, mode="rb")) if compressed else raw
            if start:
                stream.seek(start)
            yield stream
        except FileNotFoundError as error:
            raise DataError(
                f"there is no file {path}", fix="check the path; relative paths start where you are"
            ) from error
        except PermissionError as error:
            raise DataError(f"{path} may not be read", why=str(error), fix="check its permissions") from error
        except gzip.BadGzipFile as error:
            raise _broken_gzip(path, error) from error
        except OSError as error:
            if error.errno not in _UNREADABLE:
                raise
            raise DataError("the file cannot be read", where=path, why=str(error), fix="check the path") from error
        except (EOFError, zlib.error) as error:
            if not compressed:
                raise
            raise _broken_gzip(path, error) from error


def check_is_file(path: str) -> None:
    """Raise DataError at once for a folder, FIFO, socket or device, and for a path where nothing is."""
    with open_stream(path):
        pass


def _broken_gzip(path: str, error: Exception) -> DataError:
    state = "cut short" if isinstance(error, EOFError) else "damaged"
    fix = "copy or download it again; `gzip -t` tests it"
    return DataError(f"the gzip file is {state}", where=path, why=str(error), fix=fix)


def is_compressed(path: str) -> bool:
    """Whether the file is gzip, by its first bytes. Raises DataError for a file that is named .gz and is not gzip."""
    with open_stream(path) as stream:
        magic = stream.read(2)
    if magic == GZIP_MAGIC:
        return True
    if path.endswith(".gz") and magic:
        raise DataError(
            f"{path} is not gzip", why=f"it starts with {magic!r}", fix="rename it without .gz, or copy it again"
        )
    return False


@contextlib.contextmanager
def write_stream(path: str) -> Iterator[IO[bytes]]:
    """A stream to a new file, gzip where its name ends in .gz. The file appears only when it is complete."""
    path = os.fspath(path)
    with files.open_write(path) as stream:
        if not path.endswith(".gz"):
            yield stream
            return
        # no name and no time inside: the same rows give the same bytes
        with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as packed:
            yield packed  # type: ignore[misc]


def decompress(path: str, target: str | IO[bytes], check_lines: Callable[[int], None] | None = None) -> None:
    """Unpack a gzip file into another file or an open stream, in bounded memory.

    Parameters
    ----------
    path : str
        The gzip file.
    target : str or binary stream
        Where the bytes go. A file named here appears only when it is complete.
    check_lines : callable, optional
        Called with the number of lines so far. It raises where they are too many: a few bytes can unpack to a full
        disk.

    Raises
    ------
    DataError
        Where the file is cut short or damaged, or has a line of more than LONGEST_LINE bytes.

    Examples
    --------
    >>> import gzip
    >>> import io
    >>> import tempfile
    >>> from xpipe.formats import decompress
    >>> folder = tempfile.TemporaryDirectory()
    >>> with gzip.open(f"{folder.name}/train.txt.gz", "wb") as packed:
    ...     _ = packed.write(b"1 1 1\\n0 0:1\\n")
    >>> plain = io.BytesIO()
    >>> decompress(f"{folder.name}/train.txt.gz", plain)
    >>> plain.getvalue()
    b'1 1 1\\n0 0:1\\n'
    >>> folder.cleanup()
    """
    n_lines = run = 0  # run: bytes since the last newline
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(files.open_write(os.fspath(target))) if isinstance(target, str) else target
        packed = stack.enter_context(open_stream(path, compressed=True))
        while piece := packed.read(BLOCK_SIZE):
            n_lines += piece.count(b"\n")
            end = piece.rfind(b"\n")
            run = run + len(piece) if end < 0 else len(piece) - end - 1
            if run > LONGEST_LINE:
                raise too_long(path, n_lines + 1)
            if check_lines is not None:
                check_lines(n_lines)
            plain.write(piece)


def too_long(name: str, line: int | None = None) -> DataError:
    """The error of a line without an end."""
    return DataError(
        f"a line of more than {LONGEST_LINE:,} bytes",
        where=f"{name}:{line}" if line else name,
        why="no row of real data is that long: the file may be binary, or its newlines are lost",
        fix="look at it: `head -c 300`; lines end in \\n",
    )


class LineReader:
    """Gives the lines of a stream in blocks of whole lines. A newline is added where the file ends without one."""

    def __init__(self, stream: Any, n_bytes: int | None = None, block_size: int = BLOCK_SIZE, name: str = "the text"):
        self._stream, self._left, self._block_size, self._name = stream, n_bytes, block_size, name
        self._tail = b""
        self.newline_added = False  # after the last block: the file did not end in a newline

    def read_into(self, buffer: bytearray) -> tuple[bytearray, int]:
        """Fill `buffer`, or a larger one where a line does not fit. Returns it and the bytes in it, 0 at the end."""
        filled = len(self._tail)
        buffer = _with_room(buffer, filled, self._block_size + 1)
        buffer[:filled] = self._tail
        self._tail = b""
        while True:
            wanted = self._block_size if self._left is None else min(self._block_size, self._left)
            got = self._stream.readinto(memoryview(buffer)[filled : filled + wanted]) if wanted else 0
            if not got:
                if filled and buffer[filled - 1] != 10:
                    buffer[filled] = 10
                    filled += 1
                    self.newline_added = True
                return buffer, filled
            if self._left is not None:
                self._left -= got
            end = buffer.rfind(b"\n", filled, filled + got) + 1
            filled += got
            if end:
                self._tail = bytes(memoryview(buffer)[end:filled])
                return buffer, end
            if filled > LONGEST_LINE:
                raise too_long(self._name)
            buffer = _with_room(buffer, filled, self._block_size + 1)


def _with_room(buffer: bytearray, filled: int, room: int) -> bytearray:
    """The buffer, or a larger copy where it has less than `room` bytes left."""
    if len(buffer) >= filled + room:
        return buffer
    larger = bytearray(max(filled + room, 2 * len(buffer)))  # doubling: a row far longer than a block stays linear
    larger[:filled] = memoryview(buffer)[:filled]
    return larger
