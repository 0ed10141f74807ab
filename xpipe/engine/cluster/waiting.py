"""A wait that has an end and says so: for workers, schedulers, answers. Knows nothing of what is waited for."""

from __future__ import annotations

import time
from collections.abc import Callable

SAY_EVERY = 30.0  # seconds


class Wait:
    """Time since something was last there; `goes_on()` is False when it is too long, and says now and then how long."""

    def __init__(self, what: str, limit: float, note: Callable[[str], None], clock: Callable[[], float] | None = None):
        """what: "a Dask worker"; limit: seconds; clock: for tests."""
        self.what, self.limit, self.note = what, limit, note
        self._clock = clock or time.monotonic
        self.again()

    def again(self) -> None:
        """It is there: the wait begins anew."""
        self._since = self._said = self._clock()

    @property
    def seconds(self) -> float:
        return self._clock() - self._since

    @property
    def left(self) -> float:
        return max(0.0, self.limit - self.seconds)

    def goes_on(self) -> bool:
        if self.seconds >= self.limit:
            return False
        if self._clock() - self._said >= SAY_EVERY:
            self._said = self._clock()
            self.note(f"waiting for {self.what} since {self.seconds:.0f} s, giving up after {self.limit:.0f} s")
        return True
