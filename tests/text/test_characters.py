"""The table of characters against Python, for all code points."""

from __future__ import annotations

import sys

import pytest

from tests.text.oracles import character_of
from xpipe.text._words_numba import IN_CONTEXT
from xpipe.text.characters import character_table


@pytest.mark.parametrize("lowercase", [True, False])
def test_every_code_point(lowercase):
    table = character_table(lowercase).tolist()
    assert len(table) == sys.maxunicode + 1
    if lowercase:
        special = [code for code, letter in enumerate(table) if letter == IN_CONTEXT]
        assert special == [0x130, 0x3A3]
        usual = [code for code in range(len(table)) if code not in special and not 0xD800 <= code < 0xE000]
        assert [chr(code) for code in usual if len(chr(code).lower()) != 1] == []
        assert [code for code in usual if table[code] != character_of(code)] == []
    else:
        words = [chr(code).isalnum() or code == ord("_") for code in range(len(table))]
        assert table == [code if of_word else 0 for code, of_word in enumerate(words)]


def test_lower_case_stays_as_it_is():
    """A text that Python turned into lower case is cut by the same kernel, which turns it into lower case again."""
    lowered = "".join(map(chr, [*range(0xD800), *range(0xE000, sys.maxunicode + 1)])).lower()
    assert lowered.lower() == lowered
