"""The store: artifacts by content key. A stage is published as a whole or not at all.

Knows nothing of Dask or of what is inside an artifact. No file of a store can name a place outside a stage's folder.
Layout of a store:

    <store>/<stage>-<key>/<artifact>/...   the files of a stage's artifacts, each published by one rename
    <store>/<stage>-<key>/receipts/...     one small file per finished unit, while the stage is being built
    <store>/<stage>-<key>/manifest.json    written last: its presence means that the stage is complete
    <store>/digests.json                   sha256 of input files by path and stamp, so that each is hashed once
    <store>/users/...                      one small file per run folder that uses the store: see `registry`
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from xpipe.engine import sources
from xpipe.engine.lock_files import LOCK
from xpipe.engine.locks import RunLock
from xpipe.engine.manifest import MANIFEST, Artifact, Cost, Manifest, ManifestContent, artifact_digest, file_damage
from xpipe.engine.messages import FileEntry
from xpipe.engine.paths import absolute, is_plain_file, is_there
from xpipe.engine.receipts import RECEIPTS
from xpipe.engine.sealed import as_read_again, seal, unseal
from xpipe.engine.sources import KnownDigest, Source
from xpipe.errors import DataError, ResourceError
from xpipe.ground import files
from xpipe.ground.checked_json import check_value
from xpipe.ground.machine import usable_cores
from xpipe.ground.os_errors import explained
from xpipe.ground.temporary_names import is_abandoned

DIGESTS = "digests.json"
FILE_ENDINGS = (".json", ".arrow", ".parquet", ".npy", ".npz", ".txt", ".safetensors", ".tmp")
STAGE_FOLDER = re.compile(r"[a-z]+(_[a-z]+)*-[0-9A-Za-z]+\Z")


class Store:
    """A folder (or URL) of artifacts. Several runs may share it: equal keys mean equal bytes."""

    def __init__(self, path: str, *, remembers: bool = True):
        """Open a store. remembers: keep the digests of input files in the store; this creates its folder."""
        self.path = files.local(path)
        self.remembers = remembers

    def folder(self, stage: str, key: str) -> str:
        """The folder of the stage with this key."""
        return files.join(self.path, f"{stage}-{key}")

    def find(self, stage: str, key: str) -> Manifest | None:
        """The finished stage with this key, or None. `damage` tells whether it can be used."""
        folder = self.folder(stage, key)
        found = self.open(folder)
        if found is None and is_there(files.join(folder, MANIFEST)):
            return Manifest(stage, key, folder, {}, {}, broken=True)
        return found

    def open(self, folder: str) -> Manifest | None:
        """The manifest in a stage's folder; None where there is none, or where it is damaged."""
        content = unseal(files.join(folder, MANIFEST), ManifestContent)
        if content is None or files.basename(folder) != f"{content['stage']}-{content['key']}":
            return None
        return Manifest.from_json(folder, content)

    def damage(self, manifest: Manifest) -> str:
        """Why a finished stage cannot be used; "" if every file has its digest."""
        if manifest.broken:
            return f"{MANIFEST} is not as it was written"
        entries = [entry for artifact in manifest.artifacts.values() for entry in artifact.files]
        with ThreadPoolExecutor(max_workers=min(4, usable_cores())) as pool:
            for reason in pool.map(lambda entry: file_damage(manifest.folder, entry), entries):
                if reason:
                    return reason
        return ""

    def begin(self, stage: str, key: str) -> str:
        """The folder to build a stage in, cleared of links and of what killed runs left half-written."""
        folder = self.folder(stage, key)
        files.remove(files.join(folder, MANIFEST))
        if files.is_local(folder):
            with explained(folder):
                os.makedirs(folder, exist_ok=True)
            for path in list(_misplaced(folder)):
                files.remove(path)  # where it is a link, this removes the link alone
        return folder

    def publish(
        self,
        stage: str,
        key: str,
        ingredients: dict[str, Any],
        artifacts: dict[str, tuple[Sequence[FileEntry], dict[str, Any]]],
        summary: dict[str, Any],
        cost: Cost | None = None,
    ) -> Manifest:
        """Publish a stage's artifacts, {name: (files, about)}: write the manifest, then remove files not in it."""
        folder = self.folder(stage, key)
        made = {
            name: Artifact(name, folder, artifact_digest(entries, about), tuple(entries), about)
            for name, (entries, about) in artifacts.items()
        }
        manifest = Manifest(stage, key, folder, ingredients, made, summary, cost=cost)
        content = manifest.to_json()
        files.write_bytes(files.join(folder, MANIFEST), seal(content))
        published = Manifest.from_json(folder, as_read_again(content))  # keys in the order that a later run reads
        self.sweep(published)
        return published

    def leftovers(self, manifest: Manifest) -> list[str]:
        """Paths in a finished stage's folder that belong to no artifact: receipts, files of a killed run."""
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
        """Every stage folder, with its manifest (None: unfinished or damaged). Other entries are left out."""
        found = []
        for name in files.listing(self.path):
            folder = files.join(self.path, name)
            if STAGE_FOLDER.match(name) and files.is_folder(folder):
                found.append((folder, self.open(folder)))
        return found

    def sources(self, paths: Iterable[str]) -> dict[str, Source]:
        """Each file as it is now, with its digest, by the path given.

        Each file is hashed once: a settled file whose stamp did not change keeps its digest.
        """
        cache_path = files.join(self.path, DIGESTS)
        cache = unseal(cache_path, dict[str, Any]) or {}
        found, changed = {}, False
        for path in paths:
            known = cache.get(absolute(path))
            source = sources.digest(path, _known_digest(known))
            fresh = {"stamp": list(source.stamp or ()), "sha256": source.sha256}
            if source.settled and known != fresh:
                cache[source.path] = fresh
                changed = True
            found[path] = source
        if changed and self.remembers and not files.is_folder(cache_path):
            files.write_bytes(cache_path, seal(cache))
        return found

    def digest_inputs(self, paths: Iterable[str]) -> dict[str, str]:
        """The sha256 of each file, by the path given."""
        return {path: source.sha256 for path, source in self.sources(paths).items()}


def _known_digest(content: Any) -> KnownDigest | None:
    """An entry of digests.json; None where it is missing or has another shape."""
    try:
        return check_value(content, KnownDigest, where=DIGESTS)
    except DataError:
        return None


def _misplaced(folder: str) -> Iterator[str]:
    """Paths in a stage's folder that are in the way of building it.

    These are temporary files of dead processes, links, FIFOs, folders with the name of a file, and files where only
    folders belong: beside the folders of artifacts (except the lock), and beside the folders of receipts.
    """
    for top, folders, names in os.walk(folder):
        above = os.path.relpath(top, folder)
        for name in folders:
            if os.path.islink(os.path.join(top, name)) or os.path.splitext(name)[1] in FILE_ENDINGS:
                yield os.path.join(top, name)
        for name in names:
            path = os.path.join(top, name)
            beside = (above == "." and name != LOCK) or above == RECEIPTS
            if beside or not is_plain_file(path) or is_abandoned(name):
                yield path
