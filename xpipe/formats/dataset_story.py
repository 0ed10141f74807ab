"""An emitted dataset in words: what it is, how its labels came about, what was filtered. Reads and writes no file.

The sentences depend on dataset.json alone, so that the same dataset has the same card: no times, no paths, no hosts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xpipe.formats.file_names import SPLITS

SYNTHETIC = (
    "SYNTHETIC: a generated stand-in with the shape of a published dataset, not the dataset itself. Figures measured "
    "on it say nothing about the real one."
)
SCORES = {
    "posterior": "`label_scores` has the posterior probability that the row owns the label, by `discriminative`.",
    "chance": "`label_scores` has the chance that the row owns the label, learned from groups that were held out.",
    "similarity": "`label_scores` has the similarity of the row to its label, which is no probability.",
    "none": "`label_scores` is 1 for every label.",
}


@dataclass(frozen=True)
class Told:
    """What only the owner of the data can tell; None where it is not told.

    Attributes
    ----------
    title, description, license, url, creator, citation, version, published : str, optional
        Of the dataset as a whole. license: a name or the address of a text. published: a date, YYYY-MM-DD.
    collection, biases, limitations, uses, social_impact, personal_information, maintenance : str, optional
        Sentences for the responsible-AI fields of Croissant.
    """

    title: str | None = None
    description: str | None = None
    license: str | None = None
    url: str | None = None
    creator: str | None = None
    citation: str | None = None
    version: str | None = None
    published: str | None = None
    collection: str | None = None
    biases: str | None = None
    limitations: str | None = None
    uses: str | None = None
    social_impact: str | None = None
    personal_information: str | None = None
    maintenance: str | None = None


@dataclass(frozen=True)
class Story:
    """Sentences about a dataset. Those that need its owner say so where the owner told nothing."""

    what: str
    rows: str
    labels: str
    filtered: str
    synthetic: str
    collection: str
    biases: str
    limitations: str
    uses: str
    social_impact: str
    personal_information: str
    maintenance: str


def tell_story(about: dict[str, Any], told: Told) -> Story:
    """The sentences about a dataset.

    Parameters
    ----------
    about : dict
        The content of dataset.json.
    told : Told
        What its owner says.
    """
    return Story(
        what=_what(about),
        rows=_rows(about),
        labels=_labels(about),
        filtered=_filtered(about),
        synthetic=SYNTHETIC if about["synthetic"] else "Not synthetic: the rows were read, none was generated.",
        collection=told.collection or _unsaid("how the data was collected", "collection"),
        biases=_biases(about, told),
        limitations=_limitations(about, told),
        uses=told.uses or "Training and comparing extreme multi-label classifiers. Other uses were not considered.",
        social_impact=told.social_impact or _unsaid("the social impact of the data", "social_impact"),
        personal_information=told.personal_information
        or _unsaid("whether the data has personal or sensitive information", "personal_information"),
        maintenance=told.maintenance or _unsaid("who maintains the data", "maintenance"),
    )


def ordered_splits(about: dict[str, Any]) -> list[str]:
    """The splits of a dataset, train first, in whatever order dataset.json was read."""
    return [split for split in SPLITS if split in about["splits"]]


def _unsaid(what: str, key: str) -> str:
    return f"Not stated: its owner did not say {what} (`emit.card.{key}` of the pipeline file)."


def _what(about: dict[str, Any]) -> str:
    sizes = " and ".join(f"{about['splits'][split]['rows']:,} {split} rows" for split in ordered_splits(about))
    return (
        f"Extreme multi-label classification data: {sizes} with {about['n_features']:,} features and "
        f"{about['n_labels']:,} labels. A training row has {about['labels_a_row']:.2f} labels on average and "
        f"{about['k']:,} at most."
    )


def _rows(about: dict[str, Any]) -> str:
    scaled = "scaled to length 1" if about["rows_normalised"] else "as they were read"
    order = "shuffled by a seed" if about["shuffled"] else "in the order of the input"
    return f"One row per sample. Features are sparse and {scaled}. Training rows are {order}."


def _labels(about: dict[str, Any]) -> str:
    source, scores = about["labels_from"], SCORES.get(about["label_scores"], "")
    held_out = [split for split in ordered_splits(about) if split != "train"]
    others = f" Labels of {' and '.join(held_out)} rows are as they were read." if held_out else ""
    if _is_assigned(about):
        found = (
            "For training rows, the input has labels of groups only. xpipe looked for the members of a group that own "
            "its labels. Every label of a group that has members has an owner. Owners are estimates, no annotations."
        )
    elif source.startswith("every label"):
        found = (
            "For training rows, the input has labels of groups only. Every row got all labels of its groups, so many "
            "of its labels are wrong."
        )
    else:
        found = "Labels of training rows are as they were read."
    return f"{found} {scores}{_candidates(about)}{others}".replace("  ", " ")


def _candidates(about: dict[str, Any]) -> str:
    if "candidates" not in about:
        return ""
    return (
        f" `candidates` has {about['candidates']:,} further labels that training rows may have, with their "
        "probabilities, for trainers that count each label with its probability."
    )


def _is_assigned(about: dict[str, Any]) -> bool:
    return bool(about["labels_from"].startswith("assigned"))


def _filtered(about: dict[str, Any]) -> str:
    filtered = about["filtered"]
    seen, rows = filtered["held_out_occurrences_of_these"], filtered["rows_without_labels"]
    unseen = [f"{seen[split]:,} times in {split}" for split in ordered_splits(about) if split in seen]
    empty = " and ".join(f"{rows[split]:,} in {split}" for split in ordered_splits(about) if split in rows)
    return (
        f"Of {about['n_original_labels']:,} labels, {filtered['labels_without_positives']:,} have no training row and "
        f"were left out" + (f"; they occurred {' and '.join(unseen)}" if unseen else "") + ". "
        f"Rows without labels were {rows['action']}: {empty}."
    )


def _biases(about: dict[str, Any], told: Told) -> str:
    own = told.biases or _unsaid("which biases the data has", "biases")
    assigned = " Labels were assigned by a model and have its mistakes." if _is_assigned(about) else ""
    return f"{own} Frequent labels outnumber rare ones: see `frequency` in labels.parquet.{assigned}"


def _limitations(about: dict[str, Any], told: Told) -> str:
    own = f"{told.limitations} " if told.limitations else ""
    synthetic = f" {SYNTHETIC}" if about["synthetic"] else ""
    return f"{own}{_filtered(about)} {_labels(about)}{synthetic}"
