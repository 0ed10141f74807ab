"""The state of a training run on disk, whole or not at all: tensors as safetensors, the rest as JSON, no pickles.

Holds no training. `checkpoint.json` is written last and names the files it belongs to with their digests; files it
does not name are left-overs of a run that was killed, and go with the next checkpoint.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import torch

from xpipe import files
from xpipe.errors import ConfigError, DataError
from xpipe.heads.model import pack, read_packed
from xpipe.store import dump_json

STATE = "checkpoint.json"


@dataclass
class Saved:
    """What a checkpoint holds: facts (JSON values) and tensors of the last epoch and of the best one."""

    facts: dict[str, Any]
    last: dict[str, torch.Tensor]
    best: dict[str, torch.Tensor]


class Checkpoint:
    """A folder or URL of one training run. `identity`: JSON values that say which; others are refused."""

    def __init__(self, folder: str, identity: dict[str, Any]):
        self.folder = folder
        self.identity = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        self._best: dict[str, str] = {}  # the entry of the best epoch's file

    def write(
        self, epoch: int, facts: dict[str, Any], last: dict[str, torch.Tensor], best: dict[str, torch.Tensor] | None
    ) -> None:
        """Keep the state after an epoch. best: None where the best one is still that of an earlier checkpoint."""
        state = self._put(f"last-{epoch:05d}.safetensors", last)
        if best is not None:
            self._best = self._put(f"best-{epoch:05d}.safetensors", best)
        content = {"identity": self.identity, "facts": facts, "last": state, "best": self._best}
        files.write_bytes(files.join(self.folder, STATE), dump_json(content))
        for name in files.listing(self.folder):  # only what is ours: the folder may hold other things
            ours = name.startswith(("last-", "best-")) and name.endswith(".safetensors")
            if files.is_abandoned(name) or (ours and name not in (state["file"], self._best["file"])):
                files.remove(files.join(self.folder, name))

    def read(self) -> Saved | None:
        """The state of the last finished epoch; None where there is none.

        Raises ConfigError for the checkpoint of another run, DataError for a damaged one.
        """
        path = files.join(self.folder, STATE)
        if not files.exists(path):
            return None
        try:
            content = json.loads(files.read_bytes(path))
            identity, facts, last, best = (content[key] for key in ("identity", "facts", "last", "best"))
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged(path, str(error)) from error
        if identity != self.identity:
            raise ConfigError(
                "the checkpoint belongs to another training run",
                where=self.folder,
                why="its data or options are not these",
                fix="give another folder, or remove this one",
            )
        self._best = best
        return Saved(facts, self._get(last), self._get(best))

    def _put(self, name: str, tensors: dict[str, torch.Tensor]) -> dict[str, str]:
        content = pack(tensors, {})
        files.write_bytes(files.join(self.folder, name), content)
        return {"file": name, "sha256": hashlib.sha256(content).hexdigest()}

    def _get(self, entry: dict[str, str]) -> dict[str, torch.Tensor]:
        path = files.join(self.folder, entry["file"])
        if not files.exists(path) or files.sha256(path) != entry["sha256"]:
            raise self._damaged(path, "it is missing or not as it was written")
        return read_packed(path)[0]

    def _damaged(self, path: str, why: str) -> DataError:
        fix = f"remove {self.folder} to train from the start"
        return DataError("a damaged checkpoint", where=path, why=why, fix=fix)
