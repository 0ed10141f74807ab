"""What the system refuses: every number has words, names its path, and none passes for a bug."""

from __future__ import annotations

import errno
import os
import pickle

import pytest

from xpipe.errors import ConfigError, DataError, ResourceError
from xpipe.ground.os_errors import REASONS, explain_os_error, explained, explained_remote, last_resort, shown_path


@pytest.mark.parametrize("number", sorted(errno.errorcode))
def test_every_error_number_is_a_resource_error(number):
    error = OSError(number, os.strerror(number), "/some/place")
    told = explain_os_error(error)
    assert isinstance(told, ResourceError)
    assert told.what
    assert told.fix
    assert told.where == "/some/place"
    assert errno.errorcode[number] in told.why
    assert pickle.loads(pickle.dumps(told)).where == told.where


def test_the_usual_numbers_have_words_of_their_own():
    names = "ENOSPC EDQUOT EFBIG EROFS EACCES EPERM ENOTDIR EISDIR ENAMETOOLONG ELOOP EIO EMFILE ENODEV ETXTBSY ENOENT"
    assert {getattr(errno, name) for name in names.split()} <= REASONS.keys()


def test_a_temporary_name_is_not_shown():
    with pytest.raises(ResourceError) as caught, explained("/a/file", own="/a/.file.tmp"):
        raise OSError(errno.EIO, "no", "/a/.file.tmp")
    assert caught.value.where == "/a/file"
    with pytest.raises(ResourceError) as caught, explained("/a/file", own="/a/.file.tmp"):
        raise OSError(errno.EIO, "no", "/another/file")
    assert caught.value.where == "/another/file"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError("nothing more"), ResourceError),
        (OSError(errno.EFBIG, "x", b"/bytes"), ResourceError),
        (OSError(errno.EFBIG, "x", 3), ResourceError),
        (TimeoutError(), ResourceError),
        (MemoryError(), ResourceError),
        (MemoryError("Unable to allocate 7 TiB"), ResourceError),
        (RuntimeError("Error while serializing: I/O error: File too large (os error 27)"), ResourceError),
        (RuntimeError("[errno 28] No space left on device"), ResourceError),
        (DataError("bad"), DataError),
        (RuntimeError("a mistake of ours"), type(None)),
        (ZeroDivisionError(), type(None)),
    ],
)
def test_the_last_resort(error, expected):
    assert type(last_resort(error)) is expected


def test_what_caused_an_error_is_looked_at():
    error = RuntimeError("could not be written")
    error.__cause__ = OSError(errno.ENOSPC, "full")
    assert "the disk is full" in str(last_resort(error))


def test_clients_of_remote_stores():
    exceptions = pytest.importorskip("botocore.exceptions")
    with pytest.raises(ResourceError, match="remote store") as caught, explained_remote("s3://b/x"):
        raise exceptions.NoCredentialsError()
    assert "credentials" in caught.value.fix
    with pytest.raises(ConfigError, match="needs a package") as caught, explained_remote("s3://b/x"):
        raise ImportError("Install s3fs to access S3")
    assert caught.value.fix == "pip install 'xpipe[s3]'"
    with pytest.raises(ConfigError, match="cannot be opened"), explained_remote("x://b", opening=True):
        raise ValueError("Protocol not known: x")
    with pytest.raises(ValueError, match="of the caller"), explained_remote("s3://b/x"):
        raise ValueError("of the caller")
    with pytest.raises(FileNotFoundError), explained_remote("s3://b/x"):
        raise FileNotFoundError("callers ask for it")


def test_paths_are_shown_on_one_line():
    assert shown_path("a\nb\x1b[31m") == "a\\nb\\x1b[31m"
    assert shown_path("\udcff").isprintable()
