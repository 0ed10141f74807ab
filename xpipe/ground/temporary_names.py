"""Names of temporary files: a file is written under one and then renamed, so that it appears complete or not at all.

Holds no reading and no writing.
"""

from __future__ import annotations

import os
import secrets
import socket

LONGEST_STEM = 140  # bytes of a file's name that its temporary name repeats; file systems allow 255 in all
LONGEST_HOST = 64


def temporary_name(name: str) -> str:
    """A name beside `name` that no other writer takes. It is not too long for a file system where `name` is not.

    `is_abandoned` recognises it when its writer is no longer alive.
    """
    short = os.fsencode(name)[:LONGEST_STEM].decode(errors="ignore")
    return f".{short}.{_host()}.{os.getpid()}.{secrets.token_hex(4)}.tmp"


def is_temporary(name: str) -> bool:
    """True for a name that `temporary_name` gave, on any host."""
    parts = name.rsplit(".", 4)
    return len(parts) == 5 and name[0] == "." and parts[4] == "tmp" and parts[2].isdecimal() and len(parts[3]) == 8


def is_abandoned(name: str) -> bool:
    """True for the name of a temporary file whose writer, on this host, is no longer alive."""
    parts = name.rsplit(".", 4)
    if len(parts) != 5 or not name.startswith(".") or parts[4] != "tmp" or parts[1] != _host():
        return False
    return parts[2].isdecimal() and not is_alive(int(parts[2]))


def stem_of_temporary(name: str) -> str:
    """The beginning of the name that `temporary_name` was called with: all of it, unless it is very long."""
    return name.rsplit(".", 4)[0].removeprefix(".")


def is_alive(pid: int) -> bool:
    """Whether a process of this host is running."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # the latter: no system gives such a number
        return False
    except PermissionError:  # it runs, and belongs to another user
        return True
    return True


def _host() -> str:
    """The name of this host as it is in temporary names."""
    return socket.gethostname().replace(".", "-")[:LONGEST_HOST]
