"""The hint for a mistyped name: "did you mean ...?". Knows nothing of what the names are for."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable


def did_you_mean(
    word: str,
    known: Iterable[str],
    *,
    most: int = 1,
    cutoff: float = 0.6,
    plain: Callable[[str], str] = str,
    shown: Callable[[str], str] = str,
) -> str:
    """A question that names the known words most like `word`; empty where none is alike.

    Parameters
    ----------
    word : str
        What was typed.
    known : iterable of str
        What could have been meant.
    most : int
        How many words are named at most, the most similar first.
    cutoff : float
        How alike words must be, from 0 (any two) to 1 (equal only); see `difflib.get_close_matches`.
    plain : callable
        The form in which words are compared, such as `str.lower`.
    shown : callable
        The form in which a known word is named, such as `repr`.

    Examples
    --------
    >>> did_you_mean("sise", ["size", "depth"], shown=repr)
    "did you mean 'size'?"
    >>> did_you_mean("colour", ["size", "depth"])
    ''
    """
    by_form = {plain(name): name for name in known}
    close = difflib.get_close_matches(plain(word), by_form, n=most, cutoff=cutoff)
    return f"did you mean {' or '.join(shown(by_form[form]) for form in close)}?" if close else ""
