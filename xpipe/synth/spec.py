"""Which stand-ins there are: their shapes, the settings of their generators, and the pieces their rows are made in.

Holds no randomness and no files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xpipe.errors import ConfigError
from xpipe.formats import catalog

SYNTH_VERSION = 1  # part of every content key: raise it when the bytes change
SENTENCE = "SYNTHETIC stand-in: generated rows with the published shape of the dataset, not the dataset itself"
MARKER = "SYNTHETIC.json"
SHAPE = ("n_features", "n_labels", "n_train", "n_test", "n_dev", "labels_per_sample", "features_per_sample",
         "unlabelled_train_rows")  # fmt: skip


@dataclass(frozen=True)
class Spec:
    """The shape of a stand-in, and the settings of its generator."""

    name: str
    n_features: int
    n_labels: int
    n_train: int
    n_test: int
    n_dev: int
    labels_per_sample: float
    features_per_sample: float
    unlabelled_train_rows: int = 0
    piece_rows: int = 2048
    labels_per_topic: int = 25
    length_spread: float = 0.45  # standard deviation of the logarithm of features per row
    label_flatness: float = 0.0075  # Zipf-Mandelbrot offset as a share of the labels
    label_exponent: float = 1.5
    topic_exponent: float = 1.0  # Zipf exponent of the topic sizes
    fullness: float = 0.8  # a label that would fill more than this share of an average topic belongs to several topics
    two_topics: float = 0.2  # share of rows with a second topic
    stray: float = 0.06  # share of labels that come from no topic of the row
    hidden: float = 0.65  # share of labels that add no words to the row
    genres: int = 6
    background: tuple[float, float] = (0.6, 0.7)  # share of a row's words drawn from the common vocabulary
    topic_share: float = 0.75  # share of the other words that come from a topic instead of a label
    genre_share: float = 0.1  # share of background words that come from one of a few genres

    def rows(self, split: str) -> int:
        """The number of rows of a split: train, test or dev."""
        return {"train": self.n_train, "test": self.n_test, "dev": self.n_dev}[split]


@dataclass(frozen=True)
class Piece:
    """A fixed range of rows of one split: the unit of work. The cut is the same for any number of workers."""

    split: str
    index: int
    first_row: int
    n_rows: int


def _published(name: str, **settings: Any) -> Spec:
    """A stand-in with the published shape of a dataset; the settings override it."""
    known = catalog.PUBLISHED[name]
    shape = {key: getattr(known, key) for key in SHAPE}
    shape["unlabelled_train_rows"] = known.unlabelled_train_rows or 0
    return Spec(**{"name": name, **shape, **settings})


# Rows without labels: 28 in eurlex-4k, where the number is published; none in the others. EURLEX57K has no published
# features: 5,000 words and 107 words per row are those of a TF-IDF of its 5,000 most frequent words.
SPECS = {
    spec.name: spec
    for spec in (
        _published("eurlex-4k"),
        _published("wiki10-31k", piece_rows=1024, labels_per_topic=100, two_topics=0.5),
        _published("amazoncat-13k", piece_rows=16384),
        _published("wikilshtc-325k", piece_rows=16384),
        _published("eurlex57k", piece_rows=4096, n_features=5_000, features_per_sample=107.0),
        Spec("tiny", 300, 60, 600, 200, 0, 3.0, 25.0, 3, piece_rows=256, labels_per_topic=8),
    )
}


def spec_of(name: str) -> Spec:
    """The specification of a stand-in.

    Parameters
    ----------
    name : str
        The name of the dataset, in any of the spellings the catalog knows.

    Returns
    -------
    Spec
        Its shape and the settings of its generator.

    Raises
    ------
    ConfigError
        There is no stand-in of this name. The message has the closest names.

    Examples
    --------
    >>> from xpipe.synth import spec_of
    >>> spec_of("EURLex-4K").n_labels
    3993
    """
    if name in SPECS:
        return SPECS[name]
    if catalog.plain_name(name) == "tiny":
        return SPECS["tiny"]
    return SPECS[catalog.lookup(name, also=["tiny"]).name]


def plan_pieces(name: str) -> list[Piece]:
    """The pieces of a stand-in, in the order of its files: train, test, dev.

    Parameters
    ----------
    name : str
        The name of the stand-in.

    Returns
    -------
    list of Piece
        Ranges of rows. Together they cover every row of every split once.

    Raises
    ------
    ConfigError
        There is no stand-in of this name.

    Examples
    --------
    >>> from xpipe.synth import plan_pieces
    >>> [(piece.split, piece.n_rows) for piece in plan_pieces("tiny")]
    [('train', 256), ('train', 256), ('train', 88), ('test', 200)]
    """
    spec = spec_of(name)
    return [
        Piece(split, index, first, min(spec.piece_rows, spec.rows(split) - first))
        for split in catalog.SPLITS
        for index, first in enumerate(range(0, spec.rows(split), spec.piece_rows))
    ]


def checked_seed(seed: int) -> int:
    """The seed, if it is a whole number from 0 on. Raises ConfigError otherwise."""
    if not isinstance(seed, int) or seed < 0:
        raise ConfigError(f"the seed must be a whole number from 0 on, not {seed!r}", fix="seed: 0")
    return seed
