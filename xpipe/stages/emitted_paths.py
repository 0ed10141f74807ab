"""Names of the outputs in the run's folder, and where the emitted datasets lie below the folder of stage emit.

Holds no files.
"""

from __future__ import annotations

from xpipe.formats.file_names import split_folder
from xpipe.ground import files

DATASETS = "datasets"  # the artifact, and the folder of its files
# Outputs in the run's folder. In the store, each lies below the folder of its artifact.
DATASET_NAMES = ("tree", "heads", "xmc", "npz", "svmlight")  # folders of every dataset that stage emit can write
OWNERS_FOLDER = "owners"  # who owns which label; the artifact has the same name
VECTORIZER_FOLDER = "vectorizer"  # of a run that was made from texts
MODELS_FOLDER = "models"  # trained models, of trees and of heads
VERIFICATION_FOLDER = "verification"  # one folder of verdicts per head
VERIFICATION_FILE = "verification.json"
EVALUATION_FILE = "evaluation.json"
LABELS_FILE = "labels.parquet"  # of tree/ and heads/
REJECTS_FILE = "rejects.parquet"  # rows that were dropped
REPORT_FILE = "report.html"
CARD_FILE = "README.md"  # of tree/ and heads/: the dataset card
CROISSANT_FILE = "croissant.json"


def dataset_path(dataset: str, *names: str) -> str:
    """The path of a dataset (tree, heads, xmc, ...), or of a file in it, below the folder of stage emit."""
    return files.join(DATASETS, dataset, *names)


def dataset_folder(artifact_folder: str, dataset: str) -> str:
    """The folder of a dataset; `artifact_folder` is the folder of the artifact DATASETS."""
    return files.join(artifact_folder, dataset_path(dataset))


def rows_path(dataset: str, split: str, index: int) -> str:
    """The path of part `index` of the rows of tree/ or heads/. Nothing but rows lies below the folder of rows."""
    return dataset_path(dataset, split_folder(split), f"part-{index:05d}.parquet")


def label_vectors_path(index: int) -> str:
    """The path of part `index` of the label vectors, which only tree/ has."""
    return dataset_path("tree", "label_embedding", f"part-{index:05d}.parquet")


def inside_dataset(dataset: str, path: str) -> str:
    """A path below the folder of stage emit, as dataset.json lists it: relative to the folder of its dataset."""
    return path.removeprefix(dataset_path(dataset) + "/")
