"""Foreign text made safe to print: what comes from files, names and other programs' messages moves no cursor.

Holds no colours and no layout, and imports nothing heavy: `errors`, `console` and `progress` stand on it.
"""

from __future__ import annotations

import unicodedata

# Control characters (escape codes among them), invisible ones (those that reverse the writing among them), halves of
# characters, ends of lines. Joiners alone are harmless, and some scripts cannot be written without them.
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
_JOINERS = "\u200c\u200d"
_CUT = "..."


def printable(text: str, longest: int | None = None) -> str:
    r"""The text in one line of visible characters, e.g. `\x1b` for an escape; cut to `longest` characters and marked.

    A text that is printable already comes back as it is, so a second call changes nothing.
    """
    if longest is None or len(text) <= longest:
        shown = text if text.isprintable() else "".join(map(_visible, text))
        if longest is None or len(shown) <= longest:
            return shown
    pieces, room = [], longest - len(_CUT)
    for character in text:
        piece = _visible(character)
        room -= len(piece)
        if room < 0:
            break
        pieces.append(piece)
    return "".join([*pieces, _CUT])[:longest]


def printable_lines(text: str, longest: int | None = None) -> str:
    """The same for a text of several lines, which stay apart; `longest` holds for each of them."""
    return "\n".join(printable(line, longest) for line in text.split("\n"))


def _visible(character: str) -> str:
    if character.isprintable() or character in _JOINERS or unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
