"""Artifacts by content key: whole-or-nothing publishing, receipts of finished units, digests of input files.

Knows nothing of Dask or of what is inside an artifact. Nothing it reads from a file names a place outside a stage's
folder. Layout of a store:

    <store>/<stage>-<key>/<artifact>/...   the files of a stage's artifacts, each published by one rename
    <store>/<stage>-<key>/receipts/...     one small JSON a finished unit, while the stage is being built
    <store>/<stage>-<key>/manifest.json    written last: its presence means the stage is complete
    <store>/digests.json                   sha256 of input files by path and stamp: saves hashing them again
    <store>/users/...                      one small JSON for each folder whose run used the store: see `registry`
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NotRequired, TypeVar

from typing_extensions import TypedDict

from xpipe.engine import sources
from xpipe.engine.locks import LOCK, RunLock
from xpipe.engine.messages import FileEntry, Finished, entry_from
from xpipe.engine.sources import Source
from xpipe.errors import DataError, ResourceError
from xpipe.ground import files
from xpipe.ground.checked_json import (
    Count,
    InsidePath,
    Sha256,
    check_value,
    dump_json,
    from_plain,
    parse_json,
    to_plain,
)
from xpipe.ground.machine import usable_cores
from xpipe.ground.os_errors import explained

__all__ = ["RunLock", "Store"]  # and all that is defined here


R = TypeVar("R")
STORE_FORMAT = 1
MANIFEST = "manifest.json"
RECEIPTS = "receipts"
DIGESTS = "digests.json"
FILE_ENDINGS = (".json", ".arrow", ".parquet", ".npy", ".npz", ".txt", ".safetensors", ".tmp")
STAGE_FOLDER = re.compile(r"[a-z]+(_[a-z]+)*-[0-9A-Za-z]+\Z")


class EntryContent(TypedDict):
    """A `FileEntry` as manifests and receipts hold it."""

    path: InsidePath
    bytes: Count
    sha256: Sha256
    split: NotRequired[str]
    rows: NotRequired[Count]
    entries: NotRequired[Count]
    dataset: NotRequired[str]


class ArtifactContent(TypedDict):
    digest: Sha256
    about: dict[str, Any]
    files: list[EntryContent]


class ManifestContent(TypedDict):
    stage: str
    key: str
    ingredients: dict[str, Any]
    summary: dict[str, Any]
    artifacts: dict[str, ArtifactContent]


class KnownDigest(TypedDict):
    stamp: list[int | str]
    sha256: Sha256


class ReceiptContent(TypedDict):
    files: list[EntryContent]
    result: Any
    unsettled: list[list[int | str] | None]  # stamps of input files that were too young to stand for their content


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


def _unseal(path: str, shape: Any) -> Any:
    """What was sealed in a file; None where there is none, or not as it was written, or not of this shape.

    Anybody can seal: a seal shows damage, not who wrote it. So the content is checked like any other.
    """
    if not _is_plain_file(path):
        return None
    try:
        content = parse_json(files.read_bytes(path), dict[str, Any], where=path, allow_nan=True)
        digest = content.pop("sha256", None)
        if digest != hashlib.sha256(dump_json(content)).hexdigest():
            return None
        return check_value(content, shape, where=path)
    except (DataError, OSError, ValueError, RecursionError):  # the last two: texts and depths that cannot be written
        return None


def _is_plain_file(path: str) -> bool:
    """A file itself: no link, which could lead anywhere, and no FIFO, which could keep a reader waiting."""
    if not files.is_local(path):
        return files.exists(path)
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


@dataclass(frozen=True)
class Artifact:
    """One named output of a finished stage: its files and what its stage says about them (`about`)."""

    name: str
    folder: str  # where the stage's files lie
    digest: str
    files: tuple[FileEntry, ...]
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
                name: {"digest": a.digest, "about": a.about, "files": [entry.to_json() for entry in a.files]}
                for name, a in self.artifacts.items()
            },
        }

    @classmethod
    def from_json(cls, folder: str, content: dict) -> Manifest:
        artifacts = {
            name: Artifact(name, folder, a["digest"], tuple(entry_from(entry) for entry in a["files"]), a["about"])
            for name, a in content["artifacts"].items()
        }
        return cls(content["stage"], content["key"], folder, content["ingredients"], artifacts, content["summary"])


def artifact_digest(entries: Iterable[FileEntry], about: dict) -> str:
    """Digest of an artifact's content: its files' digests and facts; no path of a machine, no time."""
    listed = sorted((entry.path, entry.sha256) for entry in entries)
    return hashlib.sha256(json.dumps([listed, about], sort_keys=True).encode()).hexdigest()


class Store:
    """A folder (or URL) of artifacts. Several runs may share it: equal keys mean equal bytes."""

    def __init__(self, path: str, *, remembers: bool = True):
        """remembers: digests of input files are kept here for the next time, which makes the folder."""
        self.path = files.local(path)
        self.remembers = remembers

    def folder(self, stage: str, key: str) -> str:
        return files.join(self.path, f"{stage}-{key}")

    def find(self, stage: str, key: str) -> Manifest | None:
        """The finished stage with this key, or None. Whether it can be trusted is for `damage` to say."""
        folder = self.folder(stage, key)
        found = self.open(folder)
        if found is None and _is_there(files.join(folder, MANIFEST)):
            return Manifest(stage, key, folder, {}, {}, broken=True)
        return found

    def open(self, folder: str) -> Manifest | None:
        """The manifest in a stage's folder; None when it is not there or not as it was written."""
        content = _unseal(files.join(folder, MANIFEST), ManifestContent)
        if content is None or files.basename(folder) != f"{content['stage']}-{content['key']}":
            return None
        return Manifest.from_json(folder, content)

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
        """The folder to build a stage in, cleared of what dead writers left half-written, and of links."""
        folder = self.folder(stage, key)
        files.remove(files.join(folder, MANIFEST))
        if files.is_local(folder):
            with explained(folder):
                os.makedirs(folder, exist_ok=True)
            for path in list(_misplaced(folder)):
                files.remove(path)  # of a link, the link alone: nothing is written through it
        return folder

    def publish(
        self,
        stage: str,
        key: str,
        ingredients: dict,
        artifacts: dict[str, tuple[Sequence[FileEntry], dict]],
        summary: dict,
    ) -> Manifest:
        """Make a stage's artifacts ({name: (files, about)}) official: manifest last, then what is not in it goes."""
        folder = self.folder(stage, key)
        made = {
            name: Artifact(name, folder, artifact_digest(entries, about), tuple(entries), about)
            for name, (entries, about) in artifacts.items()
        }
        manifest = Manifest(stage, key, folder, ingredients, made, summary)
        content = manifest.to_json()
        files.write_bytes(files.join(folder, MANIFEST), _seal(content))
        published = Manifest.from_json(folder, _plain(content))  # what a later run will see, to the order of keys
        self.sweep(published)
        return published

    def leftovers(self, manifest: Manifest) -> list[str]:
        """What lies in a finished stage's folder beside its artifacts: receipts, scratch of a killed run."""
        listed = {entry.path for artifact in manifest.artifacts.values() for entry in artifact.files}
        found = files.walk(manifest.folder)
        return [path for path in found if path not in listed and path not in (MANIFEST, LOCK)]

    def sweep(self, manifest: Manifest) -> None:
        """Remove the leftovers. The caller holds the lock of the stage's folder."""
        for path in self.leftovers(manifest):
            files.remove(files.join(manifest.folder, path))
        if files.is_local(manifest.folder):
            for top, _, _ in os.walk(manifest.folder, topdown=False):
                if top != manifest.folder and not os.listdir(top):
                    os.rmdir(top)

    def tidy(self, manifest: Manifest) -> None:
        """Remove the leftovers of a killed run, unless somebody is at work in the stage's folder."""
        if self.leftovers(manifest):
            with contextlib.suppress(ResourceError, OSError), RunLock(manifest.folder):
                self.sweep(manifest)

    def stages(self) -> list[tuple[str, Manifest | None]]:
        """Every stage folder with its manifest (None: unfinished or damaged); what else lies there is not ours."""
        found = []
        for name in files.listing(self.path):
            folder = files.join(self.path, name)
            if STAGE_FOLDER.match(name) and files.is_folder(folder):
                found.append((folder, self.open(folder)))
        return found

    # Input files are hashed once: a settled file whose stamp did not change keeps its digest.

    def sources(self, paths: Iterable[str]) -> dict[str, Source]:
        """Each file as it is now, with its digest, by the path given."""
        cache_path = files.join(self.path, DIGESTS)
        cache = _unseal(cache_path, dict[str, Any]) or {}
        found, changed = {}, False
        for path in paths:
            known = cache.get(sources.absolute(path))
            source = sources.digest(path, known if _is_digest(known) else None)
            fresh = {"stamp": list(source.stamp or ()), "sha256": source.sha256}
            if source.settled and known != fresh:
                cache[source.path] = fresh
                changed = True
            found[path] = source
        if changed and self.remembers and not files.is_folder(cache_path):
            files.write_bytes(cache_path, _seal(cache))
        return found

    def digest_inputs(self, paths: Iterable[str]) -> dict[str, str]:
        """The sha256 of each file, by the path given."""
        return {path: source.sha256 for path, source in self.sources(paths).items()}


def _is_digest(known: Any) -> bool:
    try:
        check_value(known, KnownDigest, where=DIGESTS)
    except DataError:
        return False
    return True


def _is_there(path: str) -> bool:
    """Also for a link that leads nowhere."""
    return os.path.lexists(path) if files.is_local(path) else files.exists(path)


def _misplaced(folder: str) -> Iterator[str]:
    """What would be in the way of building in a stage's folder: temporary files of the dead, links, FIFOs, files where
    folders belong (only the lock lies beside the folders of artifacts and receipts) and folders where files belong."""
    for top, folders, names in os.walk(folder):
        above = os.path.relpath(top, folder)
        for name in folders:
            if os.path.islink(os.path.join(top, name)) or os.path.splitext(name)[1] in FILE_ENDINGS:
                yield os.path.join(top, name)
        for name in names:
            path = os.path.join(top, name)
            beside = (above == "." and name != LOCK) or above == RECEIPTS
            if beside or not _is_plain_file(path) or files.is_abandoned(name):
                yield path


def file_damage(folder: str, entry: FileEntry) -> str:
    """Why a stored file is not the one that was written ("" when it is)."""
    path = files.join(folder, entry.path)
    try:
        if not _is_there(path):
            return f"{entry.path} is missing"
        if not _is_plain_file(path):
            return f"{entry.path} is not a file"
        if files.size(path) != entry.bytes:
            return f"{entry.path} has {files.size(path):,} bytes instead of {entry.bytes:,}"
        if files.sha256(path) != entry.sha256:
            return f"{entry.path} has another digest than when it was written"
    except (OSError, ValueError) as error:  # the latter: a name that no file can have
        return f"{entry.path} cannot be read: {error}"
    return ""


def write_receipt(
    folder: str, step: str, unit: str, finished: Finished[Any], sources_read: Sequence[Source] = ()
) -> None:
    """Record a unit as finished, after its files. `sources_read` are the input files that it read."""
    content = {
        "files": [entry.to_json() for entry in finished.files],
        "result": to_plain(finished.result),
        "unsettled": sources.unsettled(sources_read),
    }
    files.write_bytes(files.join(folder, RECEIPTS, step, unit + ".json"), _seal(content))


def read_receipts(
    folder: str, step: str, told: type[R], sources_now: Sequence[Source] = ()
) -> dict[str, Finished[R]]:
    """Receipts of the units of a step that are finished and whole. told: what a unit of this step tells.

    A unit that read a file in the very moment of its making is believed only while that file is still the same one.
    """
    receipts: dict[str, Finished[R]] = {}
    now = [None if source.stamp is None else list(source.stamp) for source in sources_now]
    for name in files.listing(files.join(folder, RECEIPTS, step)):
        if not name.endswith(".json") or name.startswith("."):
            continue
        path = files.join(folder, RECEIPTS, step, name)
        receipt = _unseal(path, ReceiptContent)
        if receipt is None or any(stamp is None or stamp not in now for stamp in receipt["unsettled"]):
            continue
        entries = tuple(entry_from(entry) for entry in receipt["files"])
        if any(file_damage(folder, entry) for entry in entries):
            continue
        with contextlib.suppress(DataError):  # of an older release: the unit is done again
            receipts[name.removesuffix(".json")] = Finished(entries, from_plain(receipt["result"], told, where=path))
    return receipts
