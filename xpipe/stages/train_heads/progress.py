"""How far heads in training are, told now and then from their checkpoints, whichever worker trains them.

Holds no training.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from xpipe.engine.receipts import RECEIPTS
from xpipe.ground import files
from xpipe.ground.quantities import format_seconds
from xpipe.heads.history import EpochRecord, read_history
from xpipe.stages.train_heads.messages import CHECKPOINTS, STEP, HeadToTrain

NOTE_SECONDS = 10.0  # between two looks at the checkpoints


@contextlib.contextmanager
def tell_progress(folder: str, units: Sequence[HeadToTrain], note: Callable[[str], None]) -> Iterator[None]:
    """While heads are trained, call `note` now and then with one line per head that has a new epoch."""
    stop = threading.Event()
    before = {unit.name: len(epochs_of(folder, unit.name)) for unit in units}  # of an interrupted run

    def watch() -> None:
        told, since = dict(before), dict.fromkeys(before, time.monotonic())
        while not stop.wait(NOTE_SECONDS):
            done = files.listing(files.join(folder, RECEIPTS, STEP))
            for unit in [unit for unit in units if f"{unit.name}.json" not in done]:
                name, epochs, now = unit.name, unit.params.epochs, time.monotonic()
                history = epochs_of(folder, name)
                if len(history) == before[name]:
                    since[name] = now  # it waits for a worker, or is in its first epoch
                if len(history) <= told[name]:
                    continue
                told[name] = len(history)
                per_epoch = (now - since[name]) / (len(history) - before[name])
                left = format_seconds(per_epoch * (epochs - len(history)))
                note(f"{name}: epoch {len(history)} of {epochs}, {in_words(history[-1])}, at most {left} left")

    thread = threading.Thread(target=watch, name="xpipe-heads", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def epochs_of(folder: str, name: str) -> list[EpochRecord]:
    """The epochs that the checkpoint of a head tells of."""
    return read_history(files.join(folder, CHECKPOINTS, name))


def in_words(epoch: EpochRecord) -> str:
    """The figures of one epoch as a text."""
    held_out = f", held-out nDCG@5 {epoch['validation_ndcg']:.3f}" if "validation_ndcg" in epoch else ""
    return f"loss {epoch['loss']:.4g}{held_out}"
