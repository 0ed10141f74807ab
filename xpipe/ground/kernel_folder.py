"""Where compiled kernels are kept: a folder for each content of the kernel files of a room.

Knows nothing of numba and compiles nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import platform
import shutil
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

UNUSED_SECONDS = 30 * 24 * 3600  # a folder that nobody used for so long is removed
GROUND = Path(__file__).parent  # its kernels may be called by those of any room


@functools.lru_cache(maxsize=64)
def kernel_folder(room: Path, chosen: str = "") -> str:
    """The folder of the compiled kernels of a room in their present state. chosen: by the user, for all rooms.

    The same release that is installed again, or elsewhere, finds its kernels compiled.
    """
    home = Path(chosen) if chosen else kernel_home()
    folder = home / f"{room.name}-{kernel_stamp(room)}"
    _remove_unused(home, folder)
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
    return str(folder)


@functools.cache
def kernel_home() -> Path:
    """The folder of the folders of all rooms. Numba loads pickles from it, so nobody else may write to it."""
    from xpipe.errors import ResourceError
    from xpipe.ground.private import cache_folder

    try:
        return Path(cache_folder()) / "kernels"
    except ResourceError:
        folder = tempfile.mkdtemp(prefix="xpipe-kernels-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)


def kernel_stamp(room: Path) -> str:
    """A short digest of the names and contents of the kernel files of a room and of the ground."""
    digest = hashlib.sha256()
    for folder in dict.fromkeys((room, GROUND)):
        for path in sorted(folder.glob("*_numba.py")):
            content = path.read_bytes()
            digest.update(f"{path.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def _remove_unused(home: Path, used: Path) -> None:
    """Remove the folders of states of kernels that nobody has used for a month."""
    with contextlib.suppress(OSError):
        for other in home.iterdir():
            if other != used and other.stat().st_mtime < time.time() - UNUSED_SECONDS:
                shutil.rmtree(other, ignore_errors=True)


@functools.cache
def notes_folder() -> Path:
    """The folder of notes on which kernels are compiled: for this machine, this numba, and these files of all rooms."""
    digest = hashlib.sha256()
    for room in sorted({path.parent for path in GROUND.parent.rglob("*_numba.py")}):
        digest.update(f"{room.name} {kernel_stamp(room)} ".encode())
    digest.update(f"{version('numba')} {version('llvmlite')} {sys.version} {platform.node()}".encode())
    home = Path(os.environ.get("NUMBA_CACHE_DIR") or kernel_home())
    folder = home / f"notes-{digest.hexdigest()[:16]}"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
    return folder
