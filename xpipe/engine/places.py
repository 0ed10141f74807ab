"""Paths that users name: whether they can be written or read. Checked before any work begins.

Writes nothing, except for `try_folder`. Knows nothing of stages and stores. `os_errors` words the system's errors.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Mapping

from xpipe.engine.paths import absolute
from xpipe.errors import ConfigError, XpipeError
from xpipe.ground import files
from xpipe.ground.os_errors import explain_os_error, explained, shown_path

KERNEL_FOLDERS = ("/proc", "/sys", "/dev")  # no disk is below them, except MEMORY_FOLDER
MEMORY_FOLDER = "/dev/shm"
LONGEST_NAME = 255  # bytes, where the file system does not state a limit
ROOM_BELOW = 200  # bytes that the names of our files add to a folder's path
GLOBS = "*?["  # characters that remote file systems take for patterns
ELSEWHERE = "choose another folder"


def folder_problem(name: str, path: str) -> XpipeError | None:
    """Why nothing can be written to the folder `path`, which need not exist yet. name: the setting, for the message."""
    path = files.local(path)
    if not files.is_local(path):
        return _url_problem(name, path)
    if any(not letter.isprintable() and not "\udc80" <= letter <= "\udcff" for letter in path):
        return ConfigError(
            f"{name} must be a path of printable characters", where=shown_path(path), fix="give another name"
        )
    try:
        return _local_problem(name, absolute(path))
    except OSError as error:
        return explain_os_error(error, path)


def _local_problem(name: str, path: str) -> XpipeError | None:
    """Why nothing can be written to a local folder: what lies there, the length of its path, permissions."""
    there = path
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    status = os.stat(there)  # raises for a link that leads nowhere, or round in a circle
    if not stat.S_ISDIR(status.st_mode):
        what = f"{name} is a file, not a folder" if there == path else f"{name} is below a file, not below a folder"
        return ConfigError(what, where=shown_path(there), fix="choose another place, or remove the file")
    real = os.path.join(os.path.realpath(there), os.path.relpath(path, there))
    if is_inside(real, *KERNEL_FOLDERS) and not is_inside(real, MEMORY_FOLDER):
        return ConfigError(
            f"{name} is in a folder of the system's kernel",
            where=shown_path(path),
            why=f"{', '.join(KERNEL_FOLDERS)} are no disks",
            fix="choose a folder on a disk",
        )
    return _length_problem(name, path, there) or _permission_problem(path, there)


def _length_problem(name: str, path: str, there: str) -> XpipeError | None:
    """Why a path is too long for the file system of `there`, the part of it that exists."""
    longest = _limit(there, "PC_NAME_MAX", LONGEST_NAME)
    if any(len(os.fsencode(part)) > longest for part in path.split(os.sep)):
        return ConfigError(f"{name} has a name of more than {longest} bytes", where=shown_path(path)[:300])
    if len(os.fsencode(path)) + ROOM_BELOW > _limit(there, "PC_PATH_MAX", 4096):
        return ConfigError(f"{name} is too long a path", where=shown_path(path)[:300], fix="choose a shorter one")
    return None


def _permission_problem(path: str, there: str) -> XpipeError | None:
    """Why nothing may be written below `there`, the part of the path that exists."""
    if os.statvfs(there).f_flag & os.ST_RDONLY:
        return explain_os_error(OSError(errno.EROFS, os.strerror(errno.EROFS)), path)
    if not os.access(there, os.W_OK | os.X_OK):
        return explain_os_error(OSError(errno.EACCES, os.strerror(errno.EACCES)), there)
    return None


def _limit(there: str, limit: str, otherwise: int) -> int:
    """A limit that the file system of an existing path states; `otherwise` where it states none."""
    try:
        found = os.pathconf(there, limit)
    except (OSError, ValueError):
        return otherwise
    return found if found > 0 else otherwise


def _url_problem(name: str, url: str) -> XpipeError | None:
    """Why nothing can be written below a URL: characters, a missing package, an unknown protocol, the account."""
    if any(letter in url for letter in GLOBS) or any(not letter.isprintable() for letter in url):
        return ConfigError(
            f"{name} must be a URL without * ? [ and control characters",
            where=shown_path(url),
            why="remote file systems take such names for patterns",
            fix="give another name",
        )
    try:
        files.is_folder(url)  # creates the client, which fails for a missing package, protocol or account
    except FileNotFoundError:
        return None
    except XpipeError as error:
        return type(error)(f"{name}: {error.what}", where=error.where, why=error.why, fix=error.fix)
    return None


def file_problem(name: str, path: str) -> XpipeError | None:
    """Why the file `path` cannot be written."""
    path = files.local(path)
    if not files.basename(path):
        return ConfigError(f"{name} must be the name of a file, got {path!r}")
    if files.is_local(path) and os.path.isdir(path):
        fix = f"{name} must be a file: {os.path.join(shown_path(path), 'results')}"
        return ConfigError(f"{name} is a folder", where=shown_path(path), fix=fix)
    if files.is_local(path) and os.path.lexists(path) and not os.path.isfile(path) and not os.path.islink(path):
        return ConfigError(f"{name} is a device, a socket or a pipe, not a file", where=shown_path(path))
    if files.is_local(path) and len(os.fsencode(os.path.basename(path))) > LONGEST_NAME:
        return ConfigError(f"{name} has a name of more than {LONGEST_NAME} bytes", where=shown_path(path)[:300])
    return folder_problem(f"the folder of {name}", files.parent(path))


def check_folder(name: str, path: str) -> None:
    """Raise the problem, if any, of a folder that a command is told to write to."""
    problem = folder_problem(name, path)
    if problem is not None:
        raise problem


def check_file(name: str, path: str) -> None:
    """Raise the problem, if any, of a file that a command is told to write."""
    problem = file_problem(name, path)
    if problem is not None:
        raise problem


def try_folder(path: str) -> None:
    """Write to a folder and remove what was written: only this reveals quotas and limits of network file systems."""
    if not files.is_local(path):
        trial = files.join(path, ".xpipe-trial")
        files.write_bytes(trial, b"may xpipe write here?")
        files.remove(trial)
        return
    with explained(path):
        os.makedirs(path, exist_ok=True)
    try:
        with tempfile.TemporaryFile(dir=path) as stream:
            stream.write(b"may xpipe write here?")
            stream.flush()
    except OSError as error:
        raise explain_os_error(error, path) from error


def input_problem(name: str, path: str, kind: type[XpipeError]) -> XpipeError | None:
    """Why a file that a setting names cannot be read. kind: the class of the error where the file is at fault."""
    path = files.local(path)
    where, fix = shown_path(path), f"check {name}; relative paths start in the current folder"
    try:
        if files.is_folder(path):
            return kind(f"{name}: a folder, not a file", where=where, fix=fix)
        if not files.exists(path):
            why = "it is not there, or the link leads nowhere"
            return kind(f"{name}: there is no such file", where=where, why=why, fix=fix)
        if files.is_local(path) and not os.path.isfile(path):
            return kind(f"{name}: a pipe, a socket or a device, not a file", where=where, fix=fix)
        if files.is_local(path) and not os.access(path, os.R_OK):
            return kind(f"{name}: the file may not be read", where=where, fix="check its permissions")
    except ValueError as error:  # the path has a NUL character
        return ConfigError(f"{name}: no path of a file", where=where, why=str(error), fix=fix)
    except XpipeError as error:
        return error
    return None


def relation_problems(out: str, store: str, inputs: Mapping[str, str], outputs: tuple[str, ...]) -> list[XpipeError]:
    """Folders of a run that are the same folder, or one inside the other, where they must not be.

    inputs: the user's folders that the run reads, by the names of the settings. outputs: the names below `out` that the
    run replaces.
    """
    real_out, real_store = _real(out), _real(store)
    replaced = [files.join(real_out, name) for name in outputs]
    problems: list[XpipeError] = []
    if real_out == real_store:
        problems.append(ConfigError("`store` must be another folder than `out`", where=shown_path(out), fix=ELSEWHERE))
    elif is_inside(real_out, real_store):
        why = "`xpipe clean` would take it for a part of the store"
        problems.append(ConfigError("`out` must not be inside `store`", where=shown_path(out), why=why, fix=ELSEWHERE))
    elif is_inside(real_store, *replaced):
        problems.append(_replaced("`store` must not be an output of the run", store))
    for setting, folder in inputs.items():
        real = _real(folder)
        if real in (real_out, real_store):
            what = f"`{'out' if real == real_out else 'store'}` must be another folder than {setting}"
            why = "results would lie among the input files"
            problems.append(ConfigError(what, where=shown_path(folder), why=why, fix=ELSEWHERE))
        elif is_inside(real, *replaced):
            problems.append(_replaced(f"{setting} must not be an output of this run", folder))
    return problems


def _replaced(what: str, folder: str) -> ConfigError:
    """The error for a folder that lies in an output of the run."""
    return ConfigError(what, where=shown_path(folder), why="a finished run replaces that folder", fix=ELSEWHERE)


def _real(path: str) -> str:
    """The path that a local path stands for once all links are followed. A URL stays, without a slash at its end."""
    path = files.local(path)
    return os.path.realpath(path) if files.is_local(path) else path.rstrip("/")


def is_inside(path: str, *folders: str) -> bool:
    """Whether an absolute path is one of the folders or below it."""
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)
