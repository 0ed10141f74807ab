"""README.md and croissant.json of an emitted dataset: what they say is what the dataset is, and tools open it by them.

The heavy tools (Hugging Face datasets, mlcroissant, Ray) are in tests/ecosystem, which has an environment of its own.
"""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import polars as pl
import pytest
import yaml

from tests.samples import run_pipeline, write_dataset, write_pipeline
from xpipe.formats.dataset_story import Told, tell_story

CARD = "{title: My data, license: CC-BY-4.0, published: 2024-05-01, biases: Only English., personal_information: None.}"


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """The folder of a run of labels as they were read, whose owner told something."""
    folder = tmp_path_factory.mktemp("cards")
    path = write_pipeline(folder, write_dataset(folder / "data", n_train=80, n_test=20))
    run_pipeline(path, "group=null", "emit.formats=[parquet]", f"emit.card={CARD}")
    return folder / "runs" / "sample"


@pytest.mark.parametrize("dataset", ["tree", "heads"])
def test_a_folder_has_nothing_but_rows(out, dataset):
    rows = out / dataset / "rows"
    assert pl.read_parquet(rows)["split"].value_counts(sort=True).rows() == [("train", 80), ("test", 20)]
    assert pl.scan_parquet(f"{rows}/**/*.parquet").select(pl.len()).collect().item() == 100
    counted = duckdb.sql(f"select split, count(*) from '{rows}/**/*.parquet' group by 1 order by 1").fetchall()
    assert counted == [("test", 20), ("train", 80)]


def test_the_card_leads_to_the_files(out):
    front, text = front_matter(out / "heads" / "README.md")
    configs = {config["config_name"]: config["data_files"] for config in front["configs"]}
    assert list(configs) == ["default", "labels"]
    assert [(found["split"], found["path"]) for found in configs["default"]] == [
        ("train", "rows/split=train/*.parquet"),
        ("test", "rows/split=test/*.parquet"),
    ]
    for found in (each for listed in configs.values() for each in listed):
        assert list((out / "heads").glob(found["path"])), found
    assert (front["license"], front["pretty_name"], front["tags"]) == (
        "CC-BY-4.0", "My data", ["extreme-multi-label-classification"],
    )  # fmt: skip
    assert "Not synthetic" in text
    assert "Only English." in text
    assert "80 train rows and 20 test rows with 40 features and 11 labels" in text
    assert "Of 12 labels, 1 have no training row" in text


def front_matter(path: Path) -> tuple[dict, str]:
    _, front, text = path.read_text().split("---\n", 2)
    return yaml.safe_load(front), text


def test_croissant_names_every_file_and_column(out):
    found = json.loads((out / "heads" / "croissant.json").read_text())
    sets = {record["@id"]: record for record in found["recordSet"]}
    columns = [field["name"] for field in sets["rows"]["field"]]
    assert columns == [*pl.read_parquet_schema(next((out / "heads/rows/split=train").iterdir())), "split"]
    assert [field["name"] for field in sets["labels"]["field"]] == list(
        pl.read_parquet_schema(out / "heads/labels.parquet")
    )
    (labels,) = (entry for entry in found["distribution"] if entry["@id"] == "labels.parquet")
    about = json.loads((out / "heads" / "dataset.json").read_text())
    assert labels["sha256"] == about["labels"]["sha256"]
    assert found["rai:hasSyntheticData"] is False
    assert found["rai:dataBiases"][0].startswith("Only English.")
    assert (found["name"], found["license"], found["datePublished"]) == ("My-data", "CC-BY-4.0", "2024-05-01")
    ids = set(json.dumps(found).split('"')) & set(defined(found))
    assert set(referred(found)) <= ids


def defined(value: object) -> list[str]:
    """Ids of nodes that have more than an id."""
    own = [value["@id"]] if isinstance(value, dict) and "@id" in value and len(value) > 1 else []
    return own + [found for inner in inside(value) for found in defined(inner)]


def referred(value: object) -> list[str]:
    """Ids that nodes refer to."""
    own = [value["@id"]] if isinstance(value, dict) and list(value) == ["@id"] else []
    return own + [found for inner in inside(value) for found in referred(inner)]


def inside(value: object) -> list[object]:
    return list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []


@pytest.mark.parametrize(
    ("labels_from", "scores", "wanted"),
    [
        ("the labels as read", "none", "Labels of training rows are as they were read."),
        ("assigned labels", "posterior", "Owners are estimates, no annotations. `label_scores` has the posterior"),
        ("every label of a sample's groups", "none", "so many of its labels are wrong."),
    ],
)
def test_the_story_says_how_labels_came_about(out, labels_from, scores, wanted):
    about = json.loads((out / "tree" / "dataset.json").read_text())
    story = tell_story({**about, "labels_from": labels_from, "label_scores": scores, "synthetic": True}, Told())
    assert wanted in story.labels
    assert "SYNTHETIC" in story.synthetic
    assert "SYNTHETIC" in story.limitations
    assert ("assigned by a model" in story.biases) == (scores == "posterior")
    assert "emit.card.collection" in story.collection
