"""A table of recipes, written as any kind of file, and pipelines over it."""

from __future__ import annotations

import csv
import gzip
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

WORDS = [
    "flour",
    "water",
    "salt",
    "yeast",
    "tomato",
    "pea",
    "onion",
    "leek",
    "rice",
    "oil",
    "oven",
    "pan",
    "sl\u00f8w",
    "quick",
    "\u00c4pfel",
    "na\u00efve",
]
TAGS = ["bread", "soup", "salad", "quick", "vegan"]
SCHEMA = pa.schema(
    [
        ("sku", pa.string()),
        ("title", pa.string()),
        ("description", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("brand", pa.string()),
        ("price", pa.float64()),
        ("colour", pa.string()),
    ]
)
DATA = {
    "id": "sku", "text": ["title", "description"], "labels": "tags", "separator": ";", "group": "brand",
    "part_rows": 16,
}  # fmt: skip


def recipes(n_rows: int, first: int = 0, seed: int = 0) -> list[dict[str, Any]]:
    """Rows whose words tell their tags; a brand has four consecutive rows. Some cells hold what CSV must quote."""
    rng = random.Random(seed)
    rows = []
    for number in range(first, first + n_rows):
        tags = sorted(rng.sample(TAGS, rng.randint(0, 3)))
        rows.append(
            {
                "sku": f"s{number}",
                "title": " ".join([*rng.choices(WORDS, k=3), *tags]),
                "description": rng.choice([None, 'say "slow",\nthen wait; oven', " ".join(rng.choices(WORDS, k=9))]),
                "tags": tags,
                "brand": f"brand {number // 4}",
                "price": rng.choice([None, 0.5, 2.25, 10.0]),
                "colour": rng.choice([None, "red", "green"]),
            }
        )
    return rows


def write_table(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as the ending of the path says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = path.name.split(".")[1]
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path, row_group_size=7)
        return path
    if kind == "jsonl":
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    else:
        plain = path.with_suffix(".plain")
        with plain.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, SCHEMA.names, delimiter="\t" if kind == "tsv" else ",")
            writer.writeheader()
            writer.writerows({**row, "tags": ";".join(row["tags"])} for row in rows)
        text = plain.read_bytes().decode()
        plain.unlink()
    content = text.encode()
    if path.suffix == ".gz":
        content = gzip.compress(content)
    elif path.suffix == ".zst":
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as packed:
            packed.write(content)
        content = sink.getvalue().to_pybytes()
    path.write_bytes(content)
    return path


def write_group_labels(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write the labels of each brand; a brand without any has the label nothing."""
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row["brand"], set()).update(row["tags"])
    lines = [f"{brand},{';'.join(sorted(tags) or ['nothing'])}\n" for brand, tags in found.items()]
    path.write_text("group,labels\n" + "".join(lines))
    return path


def table_pipeline(folder: Path, data: dict[str, Any], *sections: str) -> Path:
    """Write a pipeline over tables."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "table.yaml"
    given = json.dumps({key: value for key, value in {**DATA, **data}.items() if value is not None})
    lines = ["name: table", f"data: {given}", *sections, "cluster: none", "backend: cpu", f"out: {folder}/runs/table"]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path
