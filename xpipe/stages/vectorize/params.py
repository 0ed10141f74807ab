"""Section `vectorize` of a pipeline file: how texts become features. Holds no work."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from xpipe.engine.params import Params
from xpipe.errors import ConfigError
from xpipe.text.options import VectorizerOptions


class VectorizeParams(Params):
    """Section `vectorize`: how texts become features.

    Options are those of `xpipe.text.Vectorizer`. Its defaults are scikit-learn's; those here are for tables of texts as
    people have them: words of one or two rows teach nothing, and those of half of all rows tell nothing apart.
    """

    min_df: int | float = Field(default=3, ge=0)  # words of fewer rows are left out: 3 rows, or 0.01 of all
    max_df: int | float = Field(default=0.5, ge=0)  # words of more rows are left out
    max_features: int | None = Field(default=None, ge=1)  # at most so many words: the most frequent ones
    ngrams: tuple[int, int] = (1, 1)  # fewest and most words of a term
    lowercase: bool = VectorizerOptions.lowercase  # whether texts are turned into lower case first
    sublinear: bool = True  # a word that is used n times counts 1 + log(n)
    stop_words: Literal["english"] | list[str] | None = None  # words that are left out
    norm: Literal["l1", "l2"] | None = VectorizerOptions.norm  # the length of a row

    @model_validator(mode="after")
    def _right_options(self) -> VectorizeParams:
        try:
            _ = self.options
        except ConfigError as error:
            raise ValueError(error.what) from None
        return self

    @property
    def options(self) -> VectorizerOptions:
        """The options of the vectorizer."""
        words = self.stop_words if isinstance(self.stop_words, str | None) else tuple(self.stop_words)
        return VectorizerOptions(
            min_df=self.min_df,
            max_df=self.max_df,
            max_features=self.max_features,
            ngrams=self.ngrams,
            lowercase=self.lowercase,
            sublinear=self.sublinear,
            stop_words=words,
            norm=self.norm,
        )
