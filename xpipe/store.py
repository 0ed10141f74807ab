"""Artifacts by content key: whole-or-nothing publishing, receipts of finished units, digests, locks.

Knows nothing of Dask or of what is inside an artifact. Layout of a store:

    <store>/<stage>-<key>/<artifact>/...   the files of a stage's artifacts, each published by one rename
    <store>/<stage>-<key>/receipts/...     one small JSON a finished unit, while the stage is being built
    <store>/<stage>-<key>/manifest.json    written last: its presence means the stage is complete
    <store>/digests.json                   sha256 of input files by path, size, time: saves hashing them again
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from xpipe import files
from xpipe.errors import ResourceError
from xpipe.machine import usable_cores

STORE_FORMAT = 1
MANIFEST = "manifest.json"
RECEIPTS = "receipts"


def dump_json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode(errors="surrogatepass")


def content_key(ingredients: dict) -> str:
    """The key of what these ingredients make. The manifest keeps the ingredients, so a key can be explained."""
    return hashlib.sha256(json.dumps(ingredients, sort_keys=True).encode()).hexdigest()[:20]


def _plain(content: dict) -> dict:
    """As it will be when it is read again: keys are texts and sorted, tuples are lists."""
    return json.loads(dump_json(content))


def _seal(content: dict) -> bytes:
    """JSON that carries its own digest."""
    plain = _plain(content)
    return dump_json({**plain, "sha256": hashlib.sha256(dump_json(plain)).hexdigest()})


def _unseal(sealed: bytes) -> dict | None:
    """What was sealed; None when one character of it has changed."""
    try:
        content = json.loads(sealed)
    except ValueError:
        return None
    digest = content.pop("sha256", None) if isinstance(content, dict) else None
    return content if digest == hashlib.sha256(dump_json(content)).hexdigest() else None


@dataclass(frozen=True)
class Artifact:
    """One named output of a finished stage: its files and what its stage says about them (`about`)."""

    name: str
    folder: str  # where the stage's files lie
    digest: str
    files: tuple[dict, ...]  # path (relative to folder), bytes, sha256, and what the unit added (rows, split, ...)
    about: dict


@dataclass
class Manifest:
    """What a finished stage left: ingredients of its key, artifacts, and a summary for people."""

    stage: str
    key: str
    folder: str
    ingredients: dict
    artifacts: dict[str, Artifact]
    summary: dict = field(default_factory=dict)
    broken: bool = False  # manifest.json is there, but not as it was written

    def to_json(self) -> dict:
        return {
            "stage": self.stage,
            "key": self.key,
            "ingredients": self.ingredients,
            "summary": self.summary,
            "artifacts": {
                name: {"digest": a.digest, "about": a.about, "files": list(a.files)}
                for name, a in self.artifacts.items()
            },
        }

    @classmethod
    def from_json(cls, folder: str, content: dict) -> Manifest:
        artifacts = {
            name: Artifact(name, folder, a["digest"], tuple(a["files"]), a["about"])
            for name, a in content["artifacts"].items()
        }
        return cls(content["stage"], content["key"], folder, content["ingredients"], artifacts, content["summary"])


def artifact_digest(entries: Iterable[dict], about: dict) -> str:
    """Digest of an artifact's content: its files' digests and facts; no path of a machine, no time."""
    listed = sorted((entry["path"], entry["sha256"]) for entry in entries)
    return hashlib.sha256(json.dumps([listed, about], sort_keys=True).encode()).hexdigest()


class Store:
    """A folder (or URL) of artifacts. Several runs may share it: equal keys mean equal bytes."""

    def __init__(self, path: str):
        self.path = files.local(path)

    def folder(self, stage: str, key: str) -> str:
        return files.join(self.path, f"{stage}-{key}")

    def find(self, stage: str, key: str) -> Manifest | None:
        """The finished stage with this key, or None. Whether it can be trusted is for `damage` to say."""
        folder = self.folder(stage, key)
        found = self.open(folder)
        if found is None and files.exists(files.join(folder, MANIFEST)):
            return Manifest(stage, key, folder, {}, {}, broken=True)
        return found

    def open(self, folder: str) -> Manifest | None:
        """The manifest in a stage's folder; None when it is not there or not as it was written."""
        path = files.join(folder, MANIFEST)
        content = _unseal(files.read_bytes(path)) if files.exists(path) else None
        return None if content is None else Manifest.from_json(folder, content)

    def damage(self, manifest: Manifest) -> str:
        """Why a finished stage cannot be trusted ("" when every file has its digest)."""
        if manifest.broken:
            return f"{MANIFEST} is not as it was written"
        entries = [entry for artifact in manifest.artifacts.values() for entry in artifact.files]
        with ThreadPoolExecutor(max_workers=min(4, usable_cores())) as pool:
            for reason in pool.map(lambda entry: file_damage(manifest.folder, entry), entries):
                if reason:
                    return reason
        return ""

    def begin(self, stage: str, key: str) -> str:
        """The folder to build a stage in, cleared of what dead writers left half-written."""
        folder = self.folder(stage, key)
        files.remove(files.join(folder, MANIFEST))
        if files.is_local(folder):
            os.makedirs(folder, exist_ok=True)
            for path in files.walk(folder):
                if files.is_abandoned(files.basename(path)):
                    files.remove(files.join(folder, path))
        return folder

    def publish(
        self, stage: str, key: str, ingredients: dict, artifacts: dict[str, tuple[list[dict], dict]], summary: dict
    ) -> Manifest:
        """Make a stage's artifacts ({name: (files, about)}) official: manifest last, then the receipts go."""
        folder = self.folder(stage, key)
        made = {
            name: Artifact(name, folder, artifact_digest(entries, about), tuple(entries), about)
            for name, (entries, about) in artifacts.items()
        }
        manifest = Manifest(stage, key, folder, ingredients, made, summary)
        content = manifest.to_json()
        files.write_bytes(files.join(folder, MANIFEST), _seal(content))
        files.remove(files.join(folder, RECEIPTS))
        return Manifest.from_json(folder, _plain(content))  # what a later run will see, to the order of keys

    def stages(self) -> list[tuple[str, Manifest | None]]:
        """Every stage folder with its manifest (None: unfinished or damaged)."""
        found = []
        for name in files.listing(self.path):
            folder = files.join(self.path, name)
            if files.is_folder(folder):
                found.append((folder, self.open(folder)))
        return found

    # Input files are hashed once: a file whose size, time and inode did not change keeps its digest.

    def digest_inputs(self, paths: Iterable[str]) -> dict[str, str]:
        """The sha256 of each file, by the path given."""
        cache_path = files.join(self.path, "digests.json")
        cache = (_unseal(files.read_bytes(cache_path)) if files.exists(cache_path) else None) or {}
        digests, changed = {}, False
        for path in paths:
            stamp = _stamp(path)
            known = cache.get(_absolute(path))
            if stamp is not None and known is not None and known[0] == stamp:
                digests[path] = known[1]
                continue
            digests[path] = files.sha256(path)
            # a file still being written may change within one tick
            if stamp is not None and time.time_ns() - stamp[1] > 2_000_000_000:
                cache[_absolute(path)] = [stamp, digests[path]]
                changed = True
        if changed:
            files.write_bytes(cache_path, _seal(cache))
        return digests


def file_damage(folder: str, entry: dict) -> str:
    """Why a stored file is not the one that was written ("" when it is)."""
    path = files.join(folder, entry["path"])
    if not files.exists(path):
        return f"{entry['path']} is missing"
    if files.size(path) != entry["bytes"]:
        return f"{entry['path']} has {files.size(path):,} bytes instead of {entry['bytes']:,}"
    if files.sha256(path) != entry["sha256"]:
        return f"{entry['path']} has another digest than when it was written"
    return ""


def write_receipt(folder: str, step: str, unit: str, entries: list[dict], result: dict) -> None:
    """Record a unit as finished, after its files."""
    content = {"files": entries, "result": result}
    files.write_bytes(files.join(folder, RECEIPTS, step, unit + ".json"), _seal(content))


def read_receipts(folder: str, step: str) -> dict[str, dict]:
    """Receipts of the units of a step that are finished and whole."""
    receipts = {}
    for name in files.listing(files.join(folder, RECEIPTS, step)):
        if not name.endswith(".json") or name.startswith("."):
            continue
        receipt = _unseal(files.read_bytes(files.join(folder, RECEIPTS, step, name)))
        if receipt is not None and not any(file_damage(folder, entry) for entry in receipt["files"]):
            receipts[name.removesuffix(".json")] = receipt
    return receipts


def _absolute(path: str) -> str:
    path = files.local(path)
    return os.path.abspath(path) if files.is_local(path) else path


def _stamp(path: str) -> list[int] | None:
    path = files.local(path)
    if not files.is_local(path):
        return None
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns, status.st_ino]


class RunLock:
    """One run at a time in an output folder. The kernel frees the lock of a process that dies, however it dies.

    Remote folders are locked by a file in this machine's temporary folder: two machines writing to one remote folder
    do no harm to the store (equal keys, equal bytes), but the later `results.json` wins.
    """

    def __init__(self, out: str):
        self.out = files.local(out)
        self.left_behind: dict | None = None
        self._stream: Any = None

    def _path(self) -> str:
        if files.is_local(self.out):
            return os.path.join(self.out, ".lock")
        import tempfile

        name = hashlib.sha256(self.out.encode()).hexdigest()[:16]
        return os.path.join(tempfile.gettempdir(), f"xpipe-{name}.lock")

    def __enter__(self) -> RunLock:
        import fcntl
        import socket

        path = self._path()
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._stream = open(path, "a+")
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = self._read_owner()
            self._stream.close()
            if not isinstance(error, BlockingIOError):
                raise ResourceError(
                    f"{self.out} cannot be locked", where=path, why=str(error), fix="use a folder on a local disk"
                ) from error
            raise ResourceError(
                f"another run is writing to {self.out}",
                where=f"process {owner.get('pid', '?')} on {owner.get('host', '?')}, since {owner.get('since', '?')}",
                why="one run at a time may write to an output folder",
                fix="wait for it, stop it, or use another folder: --set out=runs/other",
            ) from error
        owner = self._read_owner()
        self.left_behind = owner or None  # a finished run empties the file: this one died
        self._stream.truncate(0)
        self._stream.seek(0)
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        json.dump({"pid": os.getpid(), "host": socket.gethostname(), "since": since}, self._stream)
        self._stream.flush()
        return self

    def _read_owner(self) -> dict:
        self._stream.seek(0)
        try:
            owner = json.loads(self._stream.read() or "{}")
        except ValueError:
            return {}
        return owner if isinstance(owner, dict) else {}

    def __exit__(self, *_: object) -> None:
        self._stream.truncate(0)
        self._stream.close()
