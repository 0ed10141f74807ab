"""Pipelines that have every stage, on data where BLAS would use its threads, run by `test_same_bytes` in processes.

python -m tests.every_stage FOLDER DATA CLUSTER runs them below FOLDER and leaves what `run_all` gives in found.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from tests.samples import digests, run_pipeline
from tests.tables import recipes, write_table
from xpipe.formats import write_xmc

N_FEATURES = 1_836  # of bibtex: OpenBLAS cuts a product of 256 directions for two threads, unevenly
N_LABELS = 120
LAYERS = ("bsl, dim: 4", "dft, dim: 4, k: 2", "lml, k: 2", "quasibinary", "softmax", "binary")
# two heads are calibrated, one on one thread and one on two: so few rows take three trainings for it
HEADS = ", ".join(
    f"{{layer: {layer}, width: 16, epochs: 1, validation: 0.2, calibrate: {'none' if number else 'isotonic'}}}"
    for number, layer in enumerate(LAYERS)
)
TWO_THREADS = "{layer: bsl, dim: 4, name: two, width: 16, epochs: 1, threads: 2}"  # a number that is in the key
PIPELINES = {
    "everything": f"""
data: {{name: tiny, if_missing: synthesize, part_rows: 200}}
group: {{rule: random, size: 4}}
embed: {{steps: 2}}
assign: {{method: auto, steps: 2}}
emit: {{formats: [parquet, xmc, npz, svmlight], label_order: cooccurrence}}
train: {{tree: {{n_trees: 1, arity: 4, max_leaf: 40}}, heads: [{HEADS}, {TWO_THREADS}]}}
verify: {{explain: 1}}
evaluate: {{resamples: 20}}
""",
    "wide": """
data: {dir: DATA, part_rows: 200}
group: {rule: kmeans, depth: 7, noise: 2}
assign: {method: discriminative}
emit: {datasets: [tree]}
""",
    "table": """
data: {train: DATA/recipes.jsonl, holdout: 0.3, id: sku, text: [title, description], labels: tags, group: brand,
       columns: {price: number, colour: category}, part_rows: 16}
vectorize: {min_df: 1, ngrams: [1, 2]}
group: {rule: given}
emit: {datasets: [heads], row_group: 8}
""",
}


def write_wide_data(folder: Path) -> None:
    """Rows that say something about their labels: each label has features of its own."""
    rng = np.random.default_rng(0)
    own = rng.integers(0, N_FEATURES, (N_LABELS, 12))
    folder.mkdir(parents=True)
    for name, n_rows in (("train", 600), ("test", 60)):
        Y = sp.random(n_rows, N_LABELS, 0.015, "csr", np.float32, random_state=rng)
        Y.data[:] = 1
        rows, columns = [], []
        for row in range(n_rows):
            of_labels = own[Y.indices[Y.indptr[row] : Y.indptr[row + 1]]].ravel()
            anything = np.concatenate([of_labels[rng.random(len(of_labels)) < 0.6], rng.integers(0, N_FEATURES, 8)])
            found = np.unique(anything)
            rows.append(np.full(len(found), row))
            columns.append(found)
        values = rng.random(sum(map(len, rows)), dtype=np.float32).round(4) + np.float32(0.05)
        X = sp.csr_matrix((values, (np.concatenate(rows), np.concatenate(columns))), (n_rows, N_FEATURES))
        write_xmc(str(folder / f"{name}.txt"), X, Y)
    write_table(folder / "recipes.jsonl", recipes(80))


def run_all(folder: Path, data: Path, cluster: str, names: Sequence[str] = tuple(PIPELINES)) -> dict:
    """{pipeline: {stage: [key, digests]}}; results lie below folder/runs."""
    found = {}
    for name in names:
        sections = PIPELINES[name]
        path = folder / f"{name}.yaml"
        path.write_text(
            f"name: {name}\nout: {folder / 'runs' / name}\ncluster: {cluster}\n{sections}".replace("DATA", str(data))
        )
        found[name] = digests(run_pipeline(path, "report.groups=2", concluding=False))
    return json.loads(json.dumps(found))


if __name__ == "__main__":
    Path(sys.argv[1], "found.json").write_text(json.dumps(run_all(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])))
