"""The state of a training run on disk, complete or not at all: tensors as safetensors, the rest as JSON, no pickles.

Holds no training. `checkpoint.json` is written last. It names the files of the checkpoint with their digests, and has
its own digest. Files that it does not name are left over from a killed run; the next checkpoint removes them. A damaged
checkpoint counts as none: training starts again, and the next checkpoint replaces it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import torch
from typing_extensions import TypedDict

from xpipe.errors import ConfigError, DataError
from xpipe.ground import files
from xpipe.ground.checked_json import InsidePath, Sha256, dump_json, read_json
from xpipe.ground.temporary_names import is_abandoned
from xpipe.heads.history import STATE, EpochLog
from xpipe.heads.packing import pack, read_packed

KEY = "xpipe"  # of the metadata of the files


class _Entry(TypedDict):
    """A file of the checkpoint."""

    file: InsidePath
    sha256: Sha256


class _State(TypedDict):
    """What checkpoint.json holds. sha256: over all other keys."""

    identity: Sha256
    facts: EpochLog
    last: _Entry
    best: _Entry
    sha256: Sha256


@dataclass
class Saved:
    """A checkpoint in memory: the epochs so far, and the tensors of the last epoch and of the best one."""

    log: EpochLog
    last: dict[str, torch.Tensor]
    best: dict[str, torch.Tensor]


class Checkpoint:
    """The checkpoint of one training run in a folder or URL.

    identity: JSON values that say which run it is; checkpoints of other runs are refused.
    """

    def __init__(self, folder: str, identity: dict[str, Any]):
        self.folder = folder
        self.identity = _digest(identity)
        self._best: _Entry | None = None  # the entry of the best epoch's file

    def write(
        self, epoch: int, log: EpochLog, last: dict[str, torch.Tensor], best: dict[str, torch.Tensor] | None
    ) -> None:
        """Write the state after an epoch. best: None if an earlier checkpoint has the best epoch already."""
        state = self._put(f"last-{epoch:05d}.safetensors", last)
        if best is not None:
            self._best = self._put(f"best-{epoch:05d}.safetensors", best)
        assert self._best is not None  # the first epoch is the best one so far
        content = {"identity": self.identity, "facts": log, "last": state, "best": self._best}
        files.write_bytes(files.join(self.folder, STATE), dump_json({**content, "sha256": _digest(content)}))
        for name in files.listing(self.folder):  # only files of checkpoints: the folder may hold others
            ours = name.startswith(("last-", "best-")) and name.endswith(".safetensors")
            if is_abandoned(name) or (ours and name not in (state["file"], self._best["file"])):
                files.remove(files.join(self.folder, name))

    def read(self) -> Saved | None:
        """The state after the last finished epoch; None where there is none.

        Raises ConfigError for an undamaged checkpoint of another run, DataError for a damaged one.
        """
        path = files.join(self.folder, STATE)
        if not files.exists(path):
            return None
        state = read_json(path, _State)
        whole = {name: state[name] for name in ("identity", "facts", "last", "best")}
        if state["sha256"] != _digest(whole):
            raise DataError("checkpoint.json is not as it was written", where=path)
        if state["identity"] != self.identity:
            raise ConfigError(
                "the checkpoint belongs to another training run",
                where=self.folder,
                why="its data or options are not these",
                fix="give another folder, or remove this one",
            )
        history, best = state["facts"]["history"], state["facts"]["best_epoch"]
        if not 1 <= best <= len(history) or [entry["epoch"] for entry in history] != [*range(1, len(history) + 1)]:
            raise DataError("checkpoint.json counts its epochs wrongly", where=path)
        found = Saved(state["facts"], self._get(state["last"]), self._get(state["best"]))
        self._best = state["best"]
        return found

    def _put(self, name: str, tensors: dict[str, torch.Tensor]) -> _Entry:
        """Write tensors to a file."""
        content = pack(tensors, {}, KEY)
        return {"file": name, "sha256": files.write_digested(files.join(self.folder, name), content)["sha256"]}

    def _get(self, entry: _Entry) -> dict[str, torch.Tensor]:
        """Read the tensors of a file, and check its digest."""
        path = files.join(self.folder, entry["file"])
        tensors, _ = read_packed(path, KEY, dict[str, Any])
        if files.sha256(path) != entry["sha256"]:
            raise DataError("the file is not as it was written", where=path)
        return tensors


def _digest(values: dict[str, Any]) -> str:
    """SHA-256 of JSON values."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
