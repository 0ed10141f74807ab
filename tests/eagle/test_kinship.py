"""Groups without a say in their own scores: which ones fit."""

import numpy as np

from xpipe.eagle import kinship


def test_groups_that_do_not_fit_have_a_say_in_their_own_scores(monkeypatch):
    monkeypatch.setattr(kinship, "MOST_KINSHIP", 2 * 9 + 16)
    sizes = np.array([4, 3, 0, 7, 3])
    assert kinship.largest_kinship(sizes) in (4, 5, 6)  # no group has 5 or 6
    monkeypatch.setattr(kinship, "MOST_KINSHIP", 10)
    assert kinship.largest_kinship(sizes) == 2  # equal sizes are treated alike
    assert kinship.largest_kinship(np.zeros(0, int)) == 0
