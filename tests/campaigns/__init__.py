"""Long attacks on the promises of the project: `make campaign`. Not part of `make test`: they take many minutes.

Each campaign is a function of a seed that tries many cases and gives an `Outcome`: what it tried, and every failure.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Outcome:
    """What a campaign found. figures: counts, such as {"kills": 512}; failures: one line per broken promise."""

    figures: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def count(self, name: str, n: int = 1) -> None:
        self.figures[name] = self.figures.get(name, 0) + n
