"""The defaults of evaluation.

Holds no arithmetic, and imports nothing heavy: sections of pipeline files take their defaults from here.
"""

from __future__ import annotations

K = 5  # metrics are measured at ranks 1..K
RESAMPLES = 1000  # of the rows, for intervals
CONFIDENCE = 0.95  # of intervals
CALIBRATION_K = 5  # most probable labels of each row whose confidences are assessed
BINS = 10  # of confidences
