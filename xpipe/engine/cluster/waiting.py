"""A wait with an end, which tells now and then how long it has lasted. Knows nothing of what is waited for."""

from __future__ import annotations

import time
from collections.abc import Callable

SAY_EVERY = 30.0  # seconds between two notes


class Wait:
    """Measures the time since something was last there, for example a worker."""

    def __init__(self, what: str, limit: float, note: Callable[[str], None], clock: Callable[[], float] | None = None):
        """Begin the wait. what: such as "a Dask worker". limit: seconds. note: told of the wait. clock: for tests."""
        self.what, self.limit, self.note = what, limit, note
        self._clock = clock or time.monotonic
        self.again()

    def again(self) -> None:
        """Begin the wait anew, because what is waited for is there."""
        self._since = self._said = self._clock()

    @property
    def seconds(self) -> float:
        """How long the wait has lasted."""
        return self._clock() - self._since

    @property
    def left(self) -> float:
        """The seconds until the limit."""
        return max(0.0, self.limit - self.seconds)

    def goes_on(self) -> bool:
        """Whether to wait on: False once the limit is reached. Gives a note now and then."""
        if self.seconds >= self.limit:
            return False
        if self._clock() - self._said >= SAY_EVERY:
            self._said = self._clock()
            self.note(f"waiting for {self.what} since {self.seconds:.0f} s, giving up after {self.limit:.0f} s")
        return True
