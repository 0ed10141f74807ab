"""The state of a training run on disk, whole or not at all: tensors as safetensors, the rest as JSON, no pickles.

Holds no training. `checkpoint.json` is written last and names the files it belongs to with their digests, and its own;
files it does not name are left-overs of a run that was killed, and go with the next checkpoint. What is damaged in any
way is no checkpoint: training starts again, and the next checkpoint replaces it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, NotRequired

import torch
from typing_extensions import TypedDict

from xpipe.errors import ConfigError, DataError
from xpipe.ground import files
from xpipe.ground.checked_json import Count, InsidePath, Sha256, dump_json, read_json
from xpipe.heads.packing import pack, read_packed

STATE = "checkpoint.json"
KEY = "xpipe"


class Epoch(TypedDict):
    epoch: Count
    loss: float
    validation_loss: NotRequired[float]
    validation_ndcg: NotRequired[float]


class Facts(TypedDict):
    """What a checkpoint tells of the epochs so far."""

    history: list[Epoch]
    best_epoch: Count


class _Entry(TypedDict):
    file: InsidePath
    sha256: Sha256


class _State(TypedDict):
    identity: Sha256
    facts: Facts
    last: _Entry
    best: _Entry
    sha256: Sha256  # of all the others


@dataclass
class Saved:
    """What a checkpoint holds: facts (JSON values) and tensors of the last epoch and of the best one."""

    facts: Facts
    last: dict[str, torch.Tensor]
    best: dict[str, torch.Tensor]


class Checkpoint:
    """A folder or URL of one training run. `identity`: JSON values that say which; others are refused."""

    def __init__(self, folder: str, identity: dict[str, Any]):
        self.folder = folder
        self.identity = _digest(identity)
        self._best: _Entry | None = None  # the entry of the best epoch's file

    def write(
        self, epoch: int, facts: Facts, last: dict[str, torch.Tensor], best: dict[str, torch.Tensor] | None
    ) -> None:
        """Keep the state after an epoch. best: None where the best one is still that of an earlier checkpoint."""
        state = self._put(f"last-{epoch:05d}.safetensors", last)
        if best is not None:
            self._best = self._put(f"best-{epoch:05d}.safetensors", best)
        assert self._best is not None  # the first epoch is the best one so far
        content = {"identity": self.identity, "facts": facts, "last": state, "best": self._best}
        files.write_bytes(files.join(self.folder, STATE), dump_json({**content, "sha256": _digest(content)}))
        for name in files.listing(self.folder):  # only what is ours: the folder may hold other things
            ours = name.startswith(("last-", "best-")) and name.endswith(".safetensors")
            if files.is_abandoned(name) or (ours and name not in (state["file"], self._best["file"])):
                files.remove(files.join(self.folder, name))

    def read(self) -> Saved | None:
        """The state of the last finished epoch; None where there is none.

        Raises ConfigError for the whole checkpoint of another run, DataError for a damaged one.
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
        content = pack(tensors, {}, KEY)
        files.write_bytes(files.join(self.folder, name), content)
        return {"file": name, "sha256": hashlib.sha256(content).hexdigest()}

    def _get(self, entry: _Entry) -> dict[str, torch.Tensor]:
        path = files.join(self.folder, entry["file"])
        tensors, _ = read_packed(path, KEY, dict[str, Any])
        if files.sha256(path) != entry["sha256"]:
            raise DataError("the file is not as it was written", where=path)
        return tensors


def _digest(values: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
