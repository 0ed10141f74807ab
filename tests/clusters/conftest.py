"""Tests on a real SLURM and in network namespaces: `make test-cluster`. `make test` leaves them out."""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("XPIPE_TEST_CLUSTERS") else ["test_*.py"]
