"""README.md of an emitted dataset: the card that people read, and by which Hugging Face finds rows and labels.

Holds no sentences about the data: those are `dataset_story`.
"""

from __future__ import annotations

from typing import Any

import yaml

from xpipe.formats.dataset_story import Story, Told, ordered_splits
from xpipe.formats.file_names import split_folder

COLUMNS = {
    "sample": "number of the row in the input, from 0",
    "indices": "numbers of the features, from 0",
    "values": "one value per feature",
    "labels": "numbers of the labels, from 0; `labels.parquet` has their names",
    "label_scores": "one score per label",
    "candidates": "numbers of further labels that the row may have, more likely not",
    "candidate_scores": "one chance per candidate",
    "id": "id of the row in the table that it comes from",
    "group": "names of the groups that the row is in",
}


def write_card(about: dict[str, Any], columns: list[str], story: Story, told: Told) -> bytes:
    """The content of README.md.

    Parameters
    ----------
    about : dict
        The content of dataset.json.
    columns : list of str
        The columns of the rows.
    story : Story
        What is said about the dataset.
    told : Told
        What its owner says.

    Returns
    -------
    bytes
        YAML front matter with the configurations `default` (rows), `labels` and `label_embedding`, then Markdown.
    """
    front = yaml.safe_dump(_front_matter(about, told), sort_keys=False, allow_unicode=True, width=120)
    sections = {
        "What it is": f"{told.description} {story.what}" if told.description else story.what,
        "Rows": f"{story.rows}\n\n{_table(columns)}",
        "How the labels came about": story.labels,
        "What was filtered": story.filtered,
        "How the data was collected": story.collection,
        "Uses": story.uses,
        "Limitations": story.limitations,
        "Biases": story.biases,
        "Personal and sensitive information": story.personal_information,
        "Social impact": story.social_impact,
        "Maintenance": story.maintenance,
        "Files": _files(about),
    }
    if told.citation:
        sections["Citation"] = told.citation
    body = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items())
    title = told.title or f"Dataset {about['dataset']}/"
    return f"---\n{front}---\n\n# {title}\n\n**{story.synthetic}**\n\n{body}\n".encode()


def _front_matter(about: dict[str, Any], told: Told) -> dict[str, Any]:
    """What Hugging Face reads: which files are rows of which split."""
    rows = [
        {"split": split, "path": f"{split_folder(split)}/*.parquet"}
        for split in ordered_splits(about)
        if about["splits"][split]["parts"]
    ]
    configs = [{"config_name": "default", "data_files": rows}] if rows else []
    configs.append({"config_name": "labels", "data_files": [{"split": "labels", "path": about["labels"]["path"]}]})
    if "label_embedding" in about:
        vectors = [{"split": "labels", "path": "label_embedding/*.parquet"}]
        configs.append({"config_name": "label_embedding", "data_files": vectors})
    stated = {"license": told.license, "pretty_name": told.title}
    tags = ["extreme-multi-label-classification", *(["synthetic"] if about["synthetic"] else [])]
    return {**{name: value for name, value in stated.items() if value}, "tags": tags, "configs": configs}


def _table(columns: list[str]) -> str:
    """The columns of the rows, for people."""
    rows = [f"| `{name}` | {COLUMNS.get(name, '')} |" for name in columns]
    return "\n".join(["| column | meaning |", "|---|---|", *rows])


def _files(about: dict[str, Any]) -> str:
    """Where things lie, and what tells more."""
    vectors = "- `label_embedding/`: one vector per label\n" if "label_embedding" in about else ""
    return (
        "- `rows/`: nothing but rows, one folder per split\n"
        "- `labels.parquet`: number, name, frequency and inverse propensity of every label\n"
        f"{vectors}"
        "- `dataset.json`: sizes, digests of all parts, and what the dataset was made of\n"
        "- `croissant.json`: the same for machines, in Croissant"
    )
