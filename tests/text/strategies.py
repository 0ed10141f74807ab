"""Generators of texts with few different words and with every nasty character. Hold no assertions."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

# separators, digits of other scripts, marks, joiners, letters whose lower case is longer, shorter, two, or by context
NASTY = (
    "aAbBzZ_09 .,-'\n\t\0\x7f\x80\xa0ßẞÄäéÉ\u0301İıIiſKÅȺɐΣσςΑᾶΐ\u0345ΆǅǄᾈὈ\u200d\u200c\u00ad۳٣²½Ⅷⅷ①Ⓐ中文字한글あアｱ"
    "ÀĀ—–“”€\u2028\u3000\ufeff\ufffd\ufffe\uffff𝐀𝟘𐐀𐐨🄰😀🇩🏽\U000e0001\U0010ffff\ud7ff\ue000ʰˑːªºΩµ"
)
PIECES = ["the", "The", "apple", "Apples", "egg", "it", "a", "Σίσυφος", "ΣΑΣ", "σας", "İstanbul", "straße", "x" * 8,
          "y" * 9, "Y" * 9, "z" * 16, "z" * 17, "w" * 63, "v" * 64, "u" * 65, "éa" * 40, "中文", "don't", "1234567",
          "internationalisation", "internationalisations", "and", "_", "__", "a_b"]  # fmt: skip

characters = st.one_of(st.sampled_from(NASTY), st.sampled_from("abAB ."), st.characters())  # with surrogates
nasty_texts = st.text(characters, max_size=90)
plain_texts = st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join)
texts = st.one_of(plain_texts, nasty_texts, st.tuples(plain_texts, nasty_texts).map("".join))
corpora = st.lists(texts, min_size=1, max_size=8)


@st.composite
def options(draw: st.DrawFn) -> dict[str, Any]:
    """Options of a vectorizer, under our names."""
    shortest = draw(st.integers(1, 3))
    shares = st.one_of(st.integers(1, 3), st.sampled_from([0.0, 0.2, 0.34, 0.5, 0.9, 1.0]))
    return {
        "min_df": draw(st.one_of(st.just(1), shares)),
        "max_df": draw(st.one_of(st.just(1.0), shares)),
        "max_features": draw(st.one_of(st.none(), st.integers(1, 9))),
        "ngrams": (shortest, shortest + draw(st.integers(0, 2))) if draw(st.booleans()) else (1, 1),
        "lowercase": draw(st.booleans()),
        "sublinear": draw(st.booleans()),
        "stop_words": draw(st.sampled_from([None, "english", ["the", "σας", "Apple", "y" * 9, "a b", "", "x\0"], []])),
        "norm": draw(st.sampled_from(["l2", "l1", None])),
        "binary": draw(st.booleans()),
        "use_idf": draw(st.booleans()),
        "smooth_idf": draw(st.booleans()),
    }
