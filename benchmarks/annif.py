"""How good and how fast is the backend `xpipe` of Annif beside its backend omikuji, on the same corpus?

    python benchmarks/annif.py TABLES [--documents 45000] [--test 6000] [--rounds 1]

TABLES is a folder with train.parquet and test.parquet (columns text, eurovoc) and labels.parquet (eurovoc, name), as
eurlex57k-text has them. Needs the environment that `make test-annif` makes (.venv-annif), which it finds itself. The
commands of Annif train and evaluate: each in a process of its own, one after the other, in one run. omikuji is measured
as Annif sets it (Parabel), and as Bonsai (cluster_balanced=False, cluster_k=100, max_depth=3).

Goals, against the better and the faster of the two: F1@5 and nDCG not below, training at least 2x as fast (wall clock).
Exit code 1 if one does not hold. NLTK's sentence model is taken where NLTK finds it, else an empty one.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import named_figures

TOP = Path(__file__).parent.parent
PYTHON = TOP / ".venv-annif" / "bin" / "python"
GOAL = 2.0
MIN_DF = 2
PROJECTS = {
    "xpipe": {"backend": "xpipe", "min_df": MIN_DF},
    "omikuji-parabel": {"backend": "omikuji", "min_df": MIN_DF},
    "omikuji-bonsai": {
        "backend": "omikuji", "min_df": MIN_DF, "cluster_balanced": False, "cluster_k": 100, "max_depth": 3,
    },
}  # fmt: skip
METRICS = {"F1@5": "F1@5", "nDCG": "NDCG", "nDCG@5": "NDCG@5", "P@1": "Precision@1", "P@5": "Precision@5"}


def write_corpora(tables: Path, home: Path, documents: int, test: int) -> None:
    """The vocabulary, the projects and both corpora. Training documents are spread evenly over the table."""
    import pyarrow.parquet as pq
    from annif_home import write_corpus, write_home

    names = pq.ParquetFile(tables / "labels.parquet").read().to_pydict()
    write_home(home, dict(zip(names["eurovoc"], names["name"], strict=True)), PROJECTS)
    for split, most in (("train", documents), ("test", test)):
        table = pq.ParquetFile(tables / f"{split}.parquet").read(columns=["text", "eurovoc"]).to_pydict()
        step = max(1, len(table["text"]) // most)
        rows = list(zip(table["text"], table["eurovoc"], strict=True))[::step][:most]
        write_corpus(home / f"{split}.tsv", rows)


def annif(home: Path, *words: str) -> tuple[float, float]:
    """(seconds, seconds of all processors) of a command of Annif."""
    from annif_home import environment

    code = "import sys; from annif.cli import cli; sys.exit(cli())"
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code, *words], env=environment(home), capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"annif {' '.join(words)}: {done.stderr.decode(errors='replace')[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, busy


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("tables", nargs="?", type=Path, help="folder with train, test and labels.parquet")
    parser.add_argument("--documents", type=int, default=45_000)
    parser.add_argument("--test", type=int, default=6_000)
    parser.add_argument("--rounds", type=int, default=1)
    named_figures.add_option(parser)
    options = parser.parse_args()
    if options.tables is None:
        print("nothing measured: give the folder of the tables, for example data/eurlex57k-text")
        return 0
    if importlib.util.find_spec("annif") is None:
        if not PYTHON.exists():
            print("nothing measured: Annif is not here. `make test-annif` makes an environment for it")
            return 0
        os.execv(PYTHON, [str(PYTHON), *sys.argv])
    with tempfile.TemporaryDirectory() as folder:
        return measure(Path(folder), options)


def measure(home: Path, options: argparse.Namespace) -> int:
    write_corpora(options.tables, home, options.documents, options.test)
    annif(home, "load-vocab", "subjects", str(home / "subjects.tsv"), "--language", "en")
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in PROJECTS}
    for _ in range(options.rounds):
        for name in PROJECTS:
            times[name].append(annif(home, "train", name, str(home / "train.tsv")))
            print(f"{name}: trained in {times[name][-1][0]:.1f} s", flush=True)
    found, asked = {}, {}
    for name in PROJECTS:
        file = home / f"{name}.json"
        asked[name], _ = annif(home, "eval", name, str(home / "test.tsv"), "--jobs", "1", "--metrics-file", str(file))
        measured = json.loads(file.read_text())
        found[name] = {title: measured[key] for title, key in METRICS.items()}
    print(f"{options.documents:,} documents to train on, {options.test:,} to evaluate")
    print("project".ljust(18) + "".join(title.rjust(9) for title in METRICS) + "  train s   CPU s   eval s")
    best = {name: tuple(min(column) for column in zip(*each, strict=True)) for name, each in times.items()}
    for name, metrics in found.items():
        figures = "".join(f"{value:9.4f}" for value in metrics.values())
        print(f"{name:18}{figures}{best[name][0]:9.1f}{best[name][1]:8.1f}{asked[name]:9.1f}")
    others = [name for name in PROJECTS if name != "xpipe"]
    faster = min(best[name][0] for name in others) / best["xpipe"][0]
    busy = min(best[name][1] for name in others) / best["xpipe"][1]
    print(f"training: {faster:.2f}x as fast as the faster of the others, {busy:.2f}x by processor time; goal {GOAL}x")
    fine = faster >= GOAL
    for title in ("F1@5", "nDCG"):
        gain = found["xpipe"][title] - max(found[name][title] for name in others)
        print(f"{title}: {gain:+.4f} against the better of the others; goal: not below")
        fine &= gain >= 0
        named_figures.record(f"{title}: above the better of the others", gain)
    named_figures.record("training: times as fast as the faster of the others", faster)
    named_figures.write(options.json)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).parent.resolve()]
    sys.path.append(str(TOP / "tests" / "annif"))  # annif_home; this folder would hide Annif behind its own annif.py
    sys.exit(main())
