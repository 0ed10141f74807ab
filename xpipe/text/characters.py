"""Which characters are of words, and their lower case: one table for all code points, as this Python has them.

Holds no texts. The table is made from `re` and `str.lower`, so it cannot disagree with them.
"""

from __future__ import annotations

import functools
import re

import numpy as np

from xpipe.ground.sparse import read_only

IN_CONTEXT = 0xFFFFFFFF
SURROGATES = (0xD800, 0xE000)  # halves of pairs: UTF-8 has none of them
SIGMA, DOTTED_I = "\u03a3", "\u0130"  # a final sigma differs; the other becomes two characters, the second of no word


@functools.cache
def character_table(lowercase: bool) -> np.ndarray:
    """uint32, one per code point: 0 if it is of no word, else its lower case (or itself), or IN_CONTEXT.

    IN_CONTEXT marks the characters whose lower case is not one character for every text. Whoever meets one asks
    `str.lower` about the whole text.
    """
    codes = np.concatenate([np.arange(SURROGATES[0]), np.arange(SURROGATES[1], 0x110000)]).astype("<u4")
    text = codes.tobytes().decode("utf-32-le")
    if lowercase:
        text = text.replace(SIGMA, "?").replace(DOTTED_I, "?").lower()
    letters = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
    assert len(letters) == len(codes), "another character has a lower case of several characters"
    table = np.zeros(0x110000, dtype=np.uint32)
    for run in re.finditer(r"\w+", text):
        part = slice(run.start(), run.end())
        table[codes[part]] = letters[part]
    if lowercase:
        table[[ord(SIGMA), ord(DOTTED_I)]] = IN_CONTEXT
    return read_only(table)
