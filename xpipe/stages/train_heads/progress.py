"""How far heads in training are, told now and then from their checkpoints, whichever worker trains them.

Holds no training.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from xpipe.engine.progress import Bar
from xpipe.engine.receipts import RECEIPTS
from xpipe.ground import files
from xpipe.ground.quantities import format_seconds
from xpipe.heads.history import EpochRecord, read_history
from xpipe.stages.train_heads.messages import CHECKPOINTS, STEP, HeadToTrain

NOTE_SECONDS = 10.0  # between two notes on a head
LOOK_SECONDS = 2.0  # between two looks at the checkpoints


@contextlib.contextmanager
def tell_progress(folder: str, units: Sequence[HeadToTrain], note: Callable[[str], None], bar: Bar) -> Iterator[None]:
    """While heads are trained, move the bar by epochs, and call `note` now and then for each head with a new epoch."""
    stop = threading.Event()
    epochs = Epochs(folder, units, bar)

    def watch() -> None:
        noted = time.monotonic()
        while not stop.wait(min(LOOK_SECONDS, NOTE_SECONDS)):
            epochs.look()
            if time.monotonic() - noted >= NOTE_SECONDS:
                noted = time.monotonic()
                for text in epochs.news():
                    note(text)

    thread = threading.Thread(target=watch, name="xpipe-heads", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        epochs.look()


class Epochs:
    """The epochs of heads in training, as their checkpoints tell them."""

    def __init__(self, folder: str, units: Sequence[HeadToTrain], bar: Bar):
        """Look at what an interrupted run left."""
        self.folder, self.bar = folder, bar
        self.training = {unit.name: unit.params.epochs for unit in units}  # heads that are not done: epochs at most
        self.history = {name: epochs_of(folder, name) for name in self.training}
        self.before = {name: len(history) for name, history in self.history.items()}
        self.told = dict(self.before)
        self.counted = dict.fromkeys(self.before, 0)
        self.since = dict.fromkeys(self.before, time.monotonic())

    def look(self) -> None:
        """Move the bar by the epochs since the last look. A head that stopped early has no epochs left."""
        done = files.listing(files.join(self.folder, RECEIPTS, STEP))
        for name, most in list(self.training.items()):
            finished = f"{name}.json" in done
            self.history[name] = epochs_of(self.folder, name) or self.history[name]
            count = len(self.history[name])
            if count == self.before[name]:
                self.since[name] = time.monotonic()  # it waits for a worker, or is in its first epoch
            if count > self.counted[name]:
                self.bar.advance(count - self.counted[name])
                self.counted[name] = count
            if finished:
                del self.training[name]
                if count < most:
                    self.bar.expect(count - most)

    def news(self) -> Iterator[str]:
        """One line for each head in training that has a new epoch."""
        for name, most in self.training.items():
            history = self.history[name]
            if len(history) <= self.told[name]:
                continue
            self.told[name] = len(history)
            per_epoch = (time.monotonic() - self.since[name]) / max(len(history) - self.before[name], 1)
            left = format_seconds(per_epoch * (most - len(history)))
            yield f"{name}: epoch {len(history)} of {most}, {in_words(history[-1])}, at most {left} left"


def epochs_of(folder: str, name: str) -> list[EpochRecord]:
    """The epochs that the checkpoint of a head tells of."""
    return read_history(files.join(folder, CHECKPOINTS, name))


def in_words(epoch: EpochRecord) -> str:
    """The figures of one epoch as a text."""
    held_out = f", held-out nDCG@5 {epoch['validation_ndcg']:.3f}" if "validation_ndcg" in epoch else ""
    return f"loss {epoch['loss']:.4g}{held_out}"
