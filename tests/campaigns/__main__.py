"""`python -m tests.campaigns [NAME ...] [--seed S]`: runs campaigns, prints figures; exit code 1 for any failure."""

from __future__ import annotations

import argparse
import os
import sys
import time

# One thread in every library: campaigns fork, and threads do not survive that.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from tests.campaigns.kills import kills  # noqa: E402
from tests.campaigns.mutations import mutations  # noqa: E402
from tests.campaigns.problems import problems  # noqa: E402
from tests.campaigns.proofs import proofs  # noqa: E402

CAMPAIGNS = {"kills": kills, "mutations": mutations, "problems": problems, "proofs": proofs}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CAMPAIGNS)} (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(CAMPAIGNS):
        parser.error(f"no campaign is called {', '.join(sorted(unknown))}")
    table = Table("campaign", "tried", "failures", "seconds")
    failures = []
    for name in chosen.names or CAMPAIGNS:
        started = time.monotonic()
        outcome = CAMPAIGNS[name](chosen.seed)
        tried = ", ".join(f"{count:,} {what}" for what, count in outcome.figures.items())
        table.add_row(name, tried, f"{len(outcome.failures):,}", f"{time.monotonic() - started:.0f}")
        failures += [f"{name}: {failure}" for failure in outcome.failures]
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    for failure in failures[:50]:
        console.print(failure, markup=False)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
