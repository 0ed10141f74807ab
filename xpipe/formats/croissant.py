"""croissant.json of an emitted dataset: its files, columns and responsible-AI fields in the Croissant format 1.1.

Holds no sentences about the data: those are `dataset_story`.
"""

from __future__ import annotations

import re
from typing import Any

from xpipe.formats.dataset_card import COLUMNS
from xpipe.formats.dataset_story import Story, Told, ordered_splits
from xpipe.formats.file_names import ROWS_FOLDER

CONTEXT = {  # the one of the specification, word by word, and prov
    "@language": "en",
    "@vocab": "https://schema.org/",
    "arrayShape": "cr:arrayShape",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "containedIn": "cr:containedIn",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isArray": "cr:isArray",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "name": {"@container": "@language"},
    "parentField": "cr:parentField",
    "path": "cr:path",
    "prov": "http://www.w3.org/ns/prov#",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
CONFORMS_TO = ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"]
PARQUET = "application/x-parquet"
INTEGERS = ("sample", "indices", "labels", "candidates", "label", "original_label", "frequency")
TEXTS = ("id", "group", "name")
LISTS = ("indices", "values", "labels", "label_scores", "candidates", "candidate_scores", "group")
LABEL_COLUMNS = {
    "label": "number of the label, from 0",
    "original_label": "number of the label in the input",
    "name": "name of the label, where the data has one",
    "frequency": "training rows with the label",
    "inverse_propensity": "weight of the label in propensity-scored metrics",
}
VECTOR_COLUMNS = {
    "label": "number of the label",
    "indices": "numbers of the features",
    "values": "one value per feature",
}


def describe_in_croissant(about: dict[str, Any], columns: list[str], story: Story, told: Told) -> dict[str, Any]:
    """The content of croissant.json.

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
    dict
        JSON-LD.
    """
    name = told.title or f"xpipe-{about['dataset']}"
    creator = {"creator": {"@type": "Organization", "name": told.creator}} if told.creator else {}
    stated = {
        "license": told.license,
        "url": told.url,
        "citeAs": told.citation,
        "version": told.version,
        "datePublished": told.published,
    }
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS_TO,
        "name": re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-")[:255] or "dataset",
        "description": " ".join(filter(None, [told.description, story.synthetic, story.what, story.rows])),
        "keywords": ["extreme multi-label classification", *(["synthetic"] if about["synthetic"] else [])],
        **creator,
        **{key: value for key, value in stated.items() if value},
        "distribution": _distribution(about),
        "recordSet": _record_sets(about, columns),
        **_responsible_ai(about, story),
    }


def _distribution(about: dict[str, Any]) -> list[dict[str, Any]]:
    """The files. Digests of the parts are in dataset.json."""
    found = [
        _file_set("rows", f"{ROWS_FOLDER}/split=*/*.parquet", "one row per sample, one folder per split"),
        {
            "@type": "cr:FileObject", "@id": "labels.parquet", "name": "labels.parquet",
            "contentUrl": about["labels"]["path"], "encodingFormat": PARQUET, "sha256": about["labels"]["sha256"],
        },
    ]  # fmt: skip
    if "label_embedding" in about:
        found.append(_file_set("label-embedding", "label_embedding/*.parquet", "one vector per label"))
    return found


def _file_set(name: str, pattern: str, description: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileSet", "@id": f"{name}-files", "name": f"{name}-files", "description": description,
        "encodingFormat": PARQUET, "includes": pattern,
    }  # fmt: skip


def _record_sets(about: dict[str, Any], columns: list[str]) -> list[dict[str, Any]]:
    """The tables: splits, rows, labels and, where there are any, label vectors."""
    splits = {
        "@type": "cr:RecordSet", "@id": "splits", "name": "splits", "dataType": "cr:Split",
        "description": "the splits of the rows", "key": {"@id": "splits/split"},
        "field": [{"@type": "cr:Field", "@id": "splits/split", "name": "split", "dataType": "sc:Text"}],
        "data": [{"splits/split": split} for split in ordered_splits(about)],
    }  # fmt: skip
    split_of_row = {
        "@type": "cr:Field", "@id": "rows/split", "name": "split", "dataType": "sc:Text",
        "description": "the split of the row, from the name of its folder",
        "source": {  # mlcroissant applies the pattern to what it found once more
            "fileSet": {"@id": "rows-files"},
            "extract": {"fileProperty": "fullpath"},
            "transform": {"regex": "(?:.*split=)?([a-z]+)(?:/.*)?$"},
        },
        "references": {"field": {"@id": "splits/split"}},
    }  # fmt: skip
    rows = _record_set(
        "rows", _rows_in_words(about), {"fileSet": {"@id": "rows-files"}}, {n: COLUMNS[n] for n in columns}
    )
    rows["field"].append(split_of_row)
    labels = _record_set("labels", "one record per label", {"fileObject": {"@id": "labels.parquet"}}, LABEL_COLUMNS)
    found = [splits, rows, {**labels, "key": {"@id": "labels/label"}}]
    if "label_embedding" in about:
        source = {"fileSet": {"@id": "label-embedding-files"}}
        found.append(_record_set("label_embedding", "the vector of every label", source, VECTOR_COLUMNS))
    return found


def _rows_in_words(about: dict[str, Any]) -> str:
    """What a record of `rows` is."""
    return f"one record per sample of {', '.join(ordered_splits(about))}"


def _record_set(name: str, description: str, source: dict[str, Any], columns: dict[str, str]) -> dict[str, Any]:
    """A table that stands in Parquet files, column by column."""
    fields = []
    for column, meaning in columns.items():
        kind = "sc:Integer" if column in INTEGERS else "sc:Text" if column in TEXTS else "sc:Float"
        lists = {"isArray": True, "arrayShape": "-1"} if column in LISTS else {}
        fields.append({
            "@type": "cr:Field", "@id": f"{name}/{column}", "name": column, "description": meaning, "dataType": kind,
            **lists, "source": {**source, "extract": {"column": column}},
        })  # fmt: skip
    return {"@type": "cr:RecordSet", "@id": name, "name": name, "description": description, "field": fields}


def _responsible_ai(about: dict[str, Any], story: Story) -> dict[str, Any]:
    """The responsible-AI fields, and what the dataset was made of."""
    made = about["provenance"]
    versions = " ".join(f"{package} {version}" for package, version in sorted(made["versions"].items()))
    return {
        "rai:dataCollection": story.collection,
        "rai:dataCollectionMissingData": story.filtered,
        "rai:dataPreprocessingProtocol": [story.rows, story.filtered],
        "rai:dataImputationProtocol": story.labels,
        "rai:dataAnnotationProtocol": story.labels,
        "rai:machineAnnotationTools": [versions],
        "rai:dataBiases": [story.biases],
        "rai:dataLimitations": [story.limitations],
        "rai:dataUseCases": [story.uses],
        "rai:dataSocialImpact": story.social_impact,
        "rai:personalSensitiveInformation": [story.personal_information],
        "rai:dataReleaseMaintenancePlan": story.maintenance,
        "rai:hasSyntheticData": bool(about["synthetic"]),
        "prov:wasDerivedFrom": [
            {"@type": "prov:Entity", "name": name, "identifier": f"sha256:{digest}"}
            for name, digest in sorted(made["inputs"].items())
        ],
        "prov:wasGeneratedBy": {
            "@type": "prov:Activity", "name": "xpipe emit",
            "description": f"stage emit of {versions}, seed {made['seed']}; dataset.json has its parameters",
        },
    }  # fmt: skip
