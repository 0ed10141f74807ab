"""The options of a vectorizer, the ranges they must be in, and the names that scikit-learn has for them.

Holds no texts and imports nothing heavy: the defaults stand here only, and stage `vectorize` takes its own from here.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal

from typing_extensions import TypedDict

from xpipe.errors import ConfigError
from xpipe.ground.close_match import did_you_mean

Norm = Literal["l1", "l2"]
OTHER_NAMES = {"ngram_range": "ngrams", "sublinear_tf": "sublinear"}  # scikit-learn's
MOST_WORDS = 255  # of an n-gram
MOST_FEATURES = 2**31 - 1  # columns are int32
# options of scikit-learn that have one value here
FIXED: dict[str, Any] = {
    "input": "content", "encoding": "utf-8", "decode_error": "strict", "strip_accents": None, "preprocessor": None,
    "tokenizer": None, "analyzer": "word", "token_pattern": r"(?u)\b\w\w+\b", "vocabulary": None,
}  # fmt: skip


class OtherOptions(TypedDict, total=False):
    """Options of scikit-learn's vectorizer under names that `VectorizerOptions` has not: other names, fixed values."""

    ngram_range: tuple[int, int]
    sublinear_tf: bool
    input: str
    encoding: str
    decode_error: str
    strip_accents: None
    preprocessor: None
    tokenizer: None
    analyzer: str
    token_pattern: str
    vocabulary: None


@dataclass(frozen=True)
class VectorizerOptions:
    """Everything besides its texts that decides a vectorizer.

    Parameters
    ----------
    min_df, max_df : int or float
        Terms in fewer, and terms in more texts than this are left out. A whole number counts texts, a float is a share
        of all texts: 1 is one text, 1.0 is all of them.
    max_features : int, optional
        At most so many terms: those that are used most often.
    ngrams : (int, int)
        The fewest and the most words of a term.
    lowercase : bool
        Whether texts are turned into lower case first.
    sublinear : bool
        Whether a term that is used n times counts 1 + log(n), not n.
    stop_words : "english" or a collection of str, optional
        Words that are left out, before n-grams are made. A collection becomes a sorted tuple.
    norm : {"l2", "l1"}, optional
        The length that every row gets: 1 by this norm.
    binary : bool
        Whether a term counts once per text, however often it is used.
    use_idf : bool
        Whether values are multiplied by log((1 + texts) / (1 + texts with the term)) + 1.
    smooth_idf : bool
        Whether the two ones in the fraction above are there.

    Raises
    ------
    ConfigError
        An option is out of range; the message names the first one.

    Examples
    --------
    >>> from xpipe.text import VectorizerOptions
    >>> VectorizerOptions(min_df=3).max_df
    1.0
    """

    min_df: int | float = 1
    max_df: int | float = 1.0
    max_features: int | None = None
    ngrams: tuple[int, int] = (1, 1)
    lowercase: bool = True
    sublinear: bool = False
    stop_words: str | tuple[str, ...] | None = None
    norm: Norm | None = "l2"
    binary: bool = False
    use_idf: bool = True
    smooth_idf: bool = True

    def __post_init__(self) -> None:
        for name in ("min_df", "max_df"):
            _set(self, name, _checked_share(name, getattr(self, name)))
        if self.max_features is not None:
            _set(self, "max_features", _checked_count("max_features", self.max_features, MOST_FEATURES))
        try:
            shortest, longest = self.ngrams
        except (TypeError, ValueError):
            raise ConfigError(f"`ngrams` must be two numbers, got {self.ngrams!r}", fix="(1, 2)") from None
        shortest, longest = (_checked_count("ngrams", number, MOST_WORDS) for number in (shortest, longest))
        if shortest > longest:
            raise ConfigError(f"`ngrams` must not go down, got {(shortest, longest)}", fix=f"({longest}, {shortest})")
        _set(self, "ngrams", (shortest, longest))
        for name in ("lowercase", "sublinear", "binary", "use_idf", "smooth_idf"):
            if type(value := getattr(self, name)).__name__ not in ("bool", "bool_"):
                raise ConfigError(f"`{name}` must be true or false, got {value!r}")
            _set(self, name, bool(value))
        if self.norm not in ("l1", "l2", None):
            raise ConfigError(f"`norm` must be l1, l2 or None, got {self.norm!r}")
        _set(self, "stop_words", _checked_stop_words(self.stop_words))

    @property
    def stop_list(self) -> tuple[str, ...]:
        """The stop words, sorted."""
        from xpipe.text.english import ENGLISH

        return ENGLISH if self.stop_words == "english" else tuple(self.stop_words or ())

    @property
    def terms_key(self) -> str:
        """A digest of the options that decide what the terms of a text are. Counts with different ones do not mix."""
        facts = {"lowercase": self.lowercase, "ngrams": self.ngrams, "stop_words": self.stop_list}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _set(options: VectorizerOptions, name: str, value: object) -> None:
    """Replace a value by its plain form, before anybody has seen it."""
    object.__setattr__(options, name, value)


def _checked_share(name: str, value: Any) -> int | float:
    """A number of texts, or a share of them."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        if int(value) >= 1:
            return int(value)
    elif isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) <= 1:
        return float(value)
    raise ConfigError(
        f"`{name}` must be a whole number from 1 on, or a share from 0.0 to 1.0, got {value!r}",
        fix="3 is three texts, 0.5 is half of them",
    )


def _checked_count(name: str, value: Any, most: int) -> int:
    """A whole number from 1 to `most`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or not 1 <= int(value) <= most:
        raise ConfigError(f"`{name}` must be a whole number from 1 to {most:,}, got {value!r}")
    return int(value)


def _checked_stop_words(given: Any) -> str | tuple[str, ...] | None:
    """None, "english", or sorted words."""
    if given is None or given == "english":
        return given if given is None else "english"
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise ConfigError(f'`stop_words` must be "english", a list of words or None, got {given!r}')
    words = list(given)
    wrong = [word for word in words if not isinstance(word, str)]
    if wrong:
        raise ConfigError(f"`stop_words` must be words, got {wrong[0]!r}")
    return tuple(sorted({str(word) for word in words}))


def make_options(given: Mapping[str, Any]) -> VectorizerOptions:
    """Options from keywords, under our names or scikit-learn's. Raises ConfigError for a name that is not known."""
    known = {field.name for field in dataclasses.fields(VectorizerOptions)}
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name in FIXED:
            if value != FIXED[name]:
                raise ConfigError(f"`{name}` can only be {FIXED[name]!r}, got {value!r}",
                                  why="words are found by compiled code", fix="change the texts first")  # fmt: skip
            continue
        ours = OTHER_NAMES.get(name, name)
        if ours not in known:
            hint = did_you_mean(name, [*known, *OTHER_NAMES])
            raise ConfigError(f"Vectorizer has no option `{name}`", fix=hint or ", ".join(sorted(known)))
        if ours in values:
            raise ConfigError(f"`{ours}` is given twice", why=f"`{name}` is another name of it", fix="leave one out")
        values[ours] = value
    return VectorizerOptions(**values)
