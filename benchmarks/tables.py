"""From tables to a tree, in four forms: Parquet, CSV, JSON lines, and labels that are known per group only.

    python benchmarks/tables.py [FOLDER] [--work FOLDER] [--skip group_labels]

FOLDER (by default data/eurlex57k-text) holds train.parquet, dev.parquet and test.parquet with celex_id, title, text,
eurovoc and series, and labels.parquet (EURLEX57K). Runs `pipelines/eurlex_text.yaml` on each form, with one store for
all. The same matrices have the same digests, so everything after `read` must be cached for CSV and JSON lines. Then
`xpipe predict` goes over dev. Exit code 1 if a digest differs. --work keeps forms, runs and store, and goes on with
what is there.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import named_figures

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "data" / "eurlex57k-text"
PIPELINE = ROOT / "pipelines" / "eurlex_text.yaml"
COLUMNS = ("celex_id", "title", "text", "eurovoc", "series")
BETWEEN = "|"  # between labels in CSV
SPLITS = ("train", "test")
FORMS = ("parquet", "csv", "jsonl", "group_labels")


def rows_of(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    return pq.read_table(path, columns=list(COLUMNS)).to_pylist()


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        writer.writeheader()
        writer.writerows({**row, "eurovoc": BETWEEN.join(row["eurovoc"])} for row in rows)


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as stream:
        stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_groups(path: Path, rows: list[dict[str, Any]]) -> None:
    """One row per series that has labels."""
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row["series"] is not None:
            found[row["series"]].update(row["eurovoc"])
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(("group", "labels"))
        writer.writerows((name, BETWEEN.join(sorted(labels))) for name, labels in sorted(found.items()) if labels)


def write_forms(folder: Path, work: Path) -> None:
    """The tables as CSV and JSON lines, and the labels of every series."""
    for split in SPLITS:
        rows = rows_of(folder / f"{split}.parquet")
        for ending, write in (("csv", write_csv), ("jsonl", write_jsonl)):
            if not (work / f"{split}.{ending}").exists():
                write(work / f"{split}.{ending}", rows)
        if split == "train":
            write_groups(work / "groups.csv", rows)


def settings_of(form: str, folder: Path, work: Path) -> list[str]:
    """What a form changes in the pipeline file."""
    place, ending = (work, form) if form in ("csv", "jsonl") else (folder, "parquet")
    found = [f"data.{split}={place / split}.{ending}" for split in SPLITS]
    found += [f"data.label_names={folder / 'labels.parquet'}", f"out=runs/{form}", "store=runs/.store"]
    if form in ("csv", "group_labels"):
        found.append(f"data.separator={json.dumps(BETWEEN)}")
    if form == "group_labels":
        found += [f"data.group_labels={work / 'groups.csv'}", "group=null"]
    return found


def xpipe(work: Path, *words: str) -> None:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    subprocess.run([sys.executable, "-m", "xpipe", *words], cwd=work, check=True, env=environment)


def run(form: str, folder: Path, work: Path) -> dict[str, Any]:
    words = [word for setting in settings_of(form, folder, work) for word in ("--set", setting)]
    xpipe(work, "run", str(PIPELINE), *words)
    return json.loads((work / "runs" / form / "results.json").read_bytes())


def digests_of(results: dict[str, Any], tree: Path) -> dict[str, str]:
    """The digest of each artifact by its name; of artifacts that several stages write, the latest.

    tree: the emitted dataset. Its tables count; dataset.json and croissant.json also name the inputs, and labels that
    are known per group only are another input.
    """
    found = {name: digest for stage in results["stages"] for name, digest in stage["digests"].items()}
    content = hashlib.sha256()
    for path in sorted(tree.rglob("*.parquet")):
        content.update(str(path.relative_to(tree)).encode() + path.read_bytes())
    return {**found, "datasets": content.hexdigest()}


def compare(console: Any, found: dict[str, dict[str, Any]], work: Path) -> bool:
    """Print which artifacts are the same in all forms; whether all matrices are."""
    from rich.table import Table

    digests = {form: digests_of(results, work / "runs" / form / "tree") for form, results in found.items()}
    first = digests.pop("parquet")
    names = [name for name in first if name not in ("report", "figures", "evaluation")]
    table = Table("artifact", *digests)
    held, different = True, 0
    for name in names:
        cells = []
        for of_form in digests.values():
            other = of_form.get(name)
            cells.append("-" if other is None else "same" if other == first[name] else "DIFFERENT")
            held &= other in (None, first[name])
            different += other not in (None, first[name])
        table.add_row(name, *cells)
    named_figures.record("artifacts compared with those from Parquet", len(names) * len(digests))
    named_figures.record("artifacts that differ", different)
    console.print("digests of artifacts beside those from Parquet:", table)
    for form, results in found.items():
        ran = [stage["stage"] for stage in results["stages"] if stage["status"] != "cached"]
        console.print(f"{form}: {results['seconds']:.0f} s; ran {', '.join(ran) or 'nothing'}")
    console.print(f"same matrices to the last bit: {'yes' if held else 'NO'}")
    return held


def show_quality(console: Any, results: dict[str, Any]) -> None:
    """Print the figures of the tree and of the owners."""
    stages = {stage["stage"]: stage["summary"] for stage in results["stages"]}
    for model in stages["evaluate"]["models"]:
        ranked = " / ".join(f"{100 * model['precision'][rank - 1]:.2f}" for rank in (1, 3, 5))
        console.print(f"{model['name']}: P@1/3/5 {ranked}")
    trust = results["trust"]
    for name in ("precision", "recall", "f1"):
        expected = trust["expected"] and trust["expected"][name]["value"]
        console.print(f"owners, {name}: expected {expected}, true {trust['true'] and trust['true'][name]}")


def main() -> int:
    from rich.console import Console

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default=str(FOLDER))
    parser.add_argument("--work", help="a folder to keep")
    parser.add_argument("--skip", action="append", default=[], choices=FORMS[1:])
    named_figures.add_option(parser)
    given = parser.parse_args()
    console, folder = Console(), Path(given.folder).resolve()
    if not (folder / "train.parquet").exists():
        console.print(f"skipped: there is no {folder / 'train.parquet'}")
        return 0
    with tempfile.TemporaryDirectory(prefix="xpipe-tables-") as scratch:
        work = Path(given.work or scratch).resolve()
        work.mkdir(parents=True, exist_ok=True)
        write_forms(folder, work)
        found = {form: run(form, folder, work) for form in FORMS if form not in given.skip}
        xpipe(work, "predict", "runs/parquet", str(folder / "dev.parquet"), "--out", "predictions.parquet", "-k", "5")
        held = compare(console, found, work)
        show_quality(console, found["parquet"])
    named_figures.write(given.json)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
