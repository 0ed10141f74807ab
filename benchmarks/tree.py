"""How good, fast and small is the label tree, next to omikuji, napkinXC and PECOS?

    python benchmarks/tree.py [data_dir] [--sets bibtex,delicious] [--rounds 2] [--pecos path/to/its/python]
    python benchmarks/tree.py --wide 300000 --rounds 1     # so many rows of the stand-in of AmazonCat-13K, 1 tree;
                                                           # without napkinXC, which takes more than 17 GB

Trains and predicts with each of them, 1 and 3 trees, 2 threads, on the XMC texts data_dir/*/train.txt and test.txt (by
default a stand-in of EURLex-4K; PECOS where `make bench-pecos` made its environment), and
says whether the goals hold: P@1, P@3 and P@5 at most 0.2 below the best of the others anywhere and above each of them
on average, training at least as fast as the fastest of them, prediction at least 3x faster than omikuji and napkinXC,
and no more memory. Every run has a process of its own, so that its peak of memory is its own; the tools take turns,
and the best time of the rounds counts. Exit code 1 if a goal does not hold.

Settings of the others: omikuji's defaults, which are Parabel's; napkinXC's plt with hierarchicalKmeans, arity 2,
leaves of 100, liblinear's L2R_L2LOSS_SVC; PECOS' XR-Linear, which is one tree. Rows have length 1. Training includes
reading the text for xpipe and omikuji, which cannot do without; not for the others. Scores are not calibrated, as the
others' are not; `benchmarks/calibration.py` measures that. Kernels are compiled before.
Memory is what a process adds to its size after its imports; the size of those is printed too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import named_figures
import numpy as np
import scipy.sparse as sp

SETS = ("eurlex57k-5k", "bibtex", "delicious")
STAND_IN = "eurlex-4k"
WIDE = "amazoncat-13k"  # 203,882 features
WIDE_TEST_ROWS = 20_000
PECOS_PYTHON = ".venv-pecos/bin/python"
TREES = (1, 3)
THREADS = 2
TOP = 5
CALLS = 5  # of prediction
SLACK, FASTER = 0.2, 3.0  # points of precision below the best; times faster in prediction
PROPENSITY_A, PROPENSITY_B = 0.55, 1.5
PEERS = ("omikuji", "napkinXC", "PECOS")


def read_rows(path: str) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """(features with rows of length 1, labels)."""
    from xpipe.formats import read_xmc
    from xpipe.ground.sparse import row_norms, to_triple

    X, Y = read_xmc(path)
    norms = row_norms(to_triple(X))
    X.data /= np.repeat(np.where(norms > 0, norms, 1), np.diff(X.indptr)).astype(np.float32)
    return X, Y


def write_first_rows(name: str, folder: str, n_rows: dict[str, int]) -> None:
    """Write the first rows of the splits of a stand-in: its labels and features are those of the whole."""
    from xpipe.synth import piece_text, plan_pieces, spec_of

    spec = spec_of(name)
    os.makedirs(folder)
    for split, limit in n_rows.items():
        with open(os.path.join(folder, f"{split}.txt"), "wb") as stream:
            stream.write(f"{limit} {spec.n_features} {spec.n_labels}\n".encode())
            left = limit
            for piece in plan_pieces(name):
                if piece.split == split and left:
                    lines = piece_text(name, 0, piece).splitlines(keepends=True)[:left]
                    stream.writelines(lines)
                    left -= len(lines)


def write_wide(folder: str, n_rows: int) -> None:
    """Write the first rows of a wide stand-in."""
    from xpipe.synth import spec_of

    spec = spec_of(WIDE)
    write_first_rows(WIDE, folder, {"train": min(n_rows, spec.n_train), "test": min(WIDE_TEST_ROWS, spec.n_test)})


def status(name: str) -> float:
    """A size of this process in MB: VmRSS now, VmHWM at its peak."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def best_seconds(act) -> float:
    """The best of some calls: one call of some milliseconds says little on a machine that does other things too."""
    best, began = float("inf"), time.perf_counter()
    for _ in range(CALLS):
        start = time.perf_counter()
        act()
        best = min(best, time.perf_counter() - start)
        if time.perf_counter() - began > 10:
            break
    return best


def folder_size(path: str) -> float:
    found = [os.path.join(top, name) for top, _, names in os.walk(path) for name in names]
    return sum(map(os.path.getsize, [path] if os.path.isfile(path) else found)) / 1e6


# ---- one run of one tool, in a process of its own; each gives (labels of every row, best first, figures)


def run_xpipe(folder: str, n_trees: int, out: str, **options):
    from xpipe.formats import read_xmc
    from xpipe.trees import LabelTree

    start = time.perf_counter()
    tiny = sp.random(60, 40, 0.2, format="csr", dtype=np.float32, random_state=0)
    for trees, arity in ((2, 4), (1, 64)):  # loads or compiles the kernels
        LabelTree(n_trees=trees, arity=arity, max_leaf=10, calibrate="none").fit(tiny, tiny, threads=THREADS).predict(
            tiny, 2, threads=1
        )
    with open(f"{out}.txt", "w") as stream:
        stream.write("1 2 2\n0 0:1\n")
    read_xmc(f"{out}.txt")
    loading = time.perf_counter() - start
    before = status("VmRSS")
    start = time.perf_counter()
    X, Y = read_xmc(os.path.join(folder, "train.txt"))
    tree = LabelTree(n_trees=n_trees, calibrate="none", **options).fit(X, Y, threads=THREADS)
    train = time.perf_counter() - start
    peak = status("VmHWM")
    tree.save(f"{out}.npz")
    X, _ = read_rows(os.path.join(folder, "test.txt"))
    predict = best_seconds(lambda: tree.predict(X, TOP, threads=THREADS))
    found = tree.predict(X, TOP, threads=THREADS)
    rows = [row.indices[np.argsort(-row.data, kind="stable")].tolist() for row in found]
    return rows, {"train": train, "predict": predict, "before": before, "peak": peak, "loading": loading,
                  "size": folder_size(f"{out}.npz")}  # fmt: skip


def run_omikuji(folder: str, n_trees: int, out: str):
    import omikuji

    X, _ = read_rows(os.path.join(folder, "test.txt"))
    rows = [
        list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))
        for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
    ]
    options = omikuji.Model.default_hyper_param()
    options.n_trees = n_trees
    before = status("VmRSS")
    start = time.perf_counter()
    model = omikuji.Model.train_on_data(os.path.join(folder, "train.txt"), options, THREADS)
    train = time.perf_counter() - start
    peak = status("VmHWM")
    model.save(out)
    found = [model.predict(row, top_k=TOP) for row in rows]
    with ThreadPoolExecutor(THREADS) as pool:  # it predicts row by row; the better of one thread and two counts
        in_threads = best_seconds(
            lambda: list(pool.map(lambda row: model.predict(row, top_k=TOP), rows, chunksize=200))
        )
    predict = min(in_threads, best_seconds(lambda: [model.predict(row, top_k=TOP) for row in rows]))
    labels = [[label for label, _ in row] for row in found]
    return labels, {"train": train, "predict": predict, "before": before, "peak": peak, "size": folder_size(out)}


def run_napkinxc(folder: str, n_trees: int, out: str):
    from napkinxc.models import PLT

    test_X, _ = read_rows(os.path.join(folder, "test.txt"))  # first: the reader's imports are not napkinXC's memory
    before = status("VmRSS")
    X, Y = read_rows(os.path.join(folder, "train.txt"))
    labels = [Y.indices[a:b].tolist() for a, b in zip(Y.indptr[:-1], Y.indptr[1:], strict=True)]
    model = PLT(
        out, tree_type="hierarchicalKmeans", arity=2, max_leaves=100, optimizer="liblinear",
        liblinear_solver="L2R_L2LOSS_SVC", ensemble=n_trees if n_trees > 1 else 0, threads=THREADS, seed=0,
    )  # fmt: skip
    start = time.perf_counter()
    model.fit(X, labels)
    train = time.perf_counter() - start
    peak = status("VmHWM")
    model.load()
    predict = best_seconds(lambda: model.predict(test_X, top_k=TOP))
    found = model.predict(test_X, top_k=TOP)
    return [list(row) for row in found], {"train": train, "predict": predict, "before": before, "peak": peak,
                                          "size": folder_size(out)}  # fmt: skip


def run_pecos(folder: str, n_trees: int, out: str):
    """In an environment that has libpecos, but not xpipe: the texts are read from the npz files its caller wrote."""
    from pecos.xmc import Indexer, LabelEmbeddingFactory
    from pecos.xmc.xlinear.model import XLinearModel

    before = status("VmRSS")
    X, Y = sp.load_npz(f"{out}.X.npz").astype(np.float32), sp.load_npz(f"{out}.Y.npz").astype(np.float32)
    start = time.perf_counter()
    chain = Indexer.gen(LabelEmbeddingFactory.create(Y, X, method="pifa"))
    model = XLinearModel.train(X, Y, C=chain, threads=THREADS)
    train = time.perf_counter() - start
    peak = status("VmHWM")
    model.save(out)
    model = XLinearModel.load(out, is_predict_only=True)
    test = sp.load_npz(f"{out}.test.npz").astype(np.float32)
    predict = best_seconds(lambda: model.predict(test, only_topk=TOP, threads=THREADS))
    found = model.predict(test, only_topk=TOP, threads=THREADS)
    rows = [row.indices[np.argsort(-row.data, kind="stable")].tolist() for row in found.tocsr()]
    return rows, {"train": train, "predict": predict, "before": before, "peak": peak, "size": folder_size(out)}


RUNS = {
    "xpipe": run_xpipe,
    "xpipe, arity 2": lambda *arguments: run_xpipe(*arguments, arity=2),
    "omikuji": run_omikuji,
    "napkinXC": run_napkinxc,
    "PECOS": run_pecos,
}


# ---- what the runs are worth


def measure(rows: list[list[int]], Y: sp.csr_matrix, frequency: np.ndarray, n_train: int) -> dict[str, float]:
    """P@1, 3, 5, nDCG@5 and PSP@5 in percent. Fewer than k labels count as misses; rows without labels count as 0."""
    propensity_c = (np.log(n_train) - 1) * (PROPENSITY_B + 1) ** PROPENSITY_A
    inverse = 1 + propensity_c * (frequency + PROPENSITY_B) ** -PROPENSITY_A
    hits, gains, best_gains = np.zeros((len(rows), TOP)), np.zeros(len(rows)), np.zeros(len(rows))
    discounts = 1 / np.log2(np.arange(2, TOP + 2))
    ndcg = np.zeros(len(rows))
    for i, labels in enumerate(rows):
        truth = Y.indices[Y.indptr[i] : Y.indptr[i + 1]]
        for place, label in enumerate(labels[:TOP]):
            hits[i, place] = label in truth
            gains[i] += inverse[label] * hits[i, place]
        best_gains[i] = np.sort(inverse[truth])[::-1][:TOP].sum()
        ndcg[i] = hits[i] @ discounts / max(discounts[: len(truth)].sum(), 1e-12)
    precision = 100 * hits.cumsum(axis=1).mean(axis=0) / np.arange(1, TOP + 1)
    return {"P@1": precision[0], "P@3": precision[2], "P@5": precision[4], "nDCG@5": 100 * ndcg.mean(),
            "PSP@5": 100 * gains.sum() / best_gains.sum()}  # fmt: skip


def start_run(tool: str, folder: str, n_trees: int, out: str, python: str) -> dict | None:
    """The figures of one run, or None where the tool cannot run; what it prints is thrown away."""
    command = [python, os.path.abspath(__file__), folder, "--run", tool, "--trees", str(n_trees), "--out", out]
    with open(f"{out}.log", "w") as log:  # omikuji prints megabytes of bars
        code = subprocess.run(command, stdout=log, stderr=log, check=False).returncode
    if code:
        with open(f"{out}.log", errors="replace") as log:
            print(f"{tool} cannot run: {log.read()[-300:].strip()}", file=sys.stderr)
        return None
    with open(f"{out}.json") as stream:
        return json.load(stream)


def compare_set(console, folder: str, n_trees: int, tools: dict[str, str], rounds: int) -> dict[str, dict]:
    """The figures of every tool on one set, best times of all rounds."""
    from rich.table import Table

    X, Y = read_rows(os.path.join(folder, "train.txt"))
    test_X, test_Y = read_rows(os.path.join(folder, "test.txt"))
    frequency = np.bincount(Y.indices, minlength=Y.shape[1])
    figures: dict[str, dict] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for turn in range(rounds):  # the tools take turns: other work on the machine then slows down all of them alike
            for tool, python in tools.items():
                out = os.path.join(scratch, f"{tool.replace(', ', '-').replace(' ', '')}-{turn}")
                if tool == "PECOS":
                    for name, matrix in {"X": X, "Y": Y, "test": test_X}.items():
                        sp.save_npz(f"{out}.{name}.npz", matrix)
                found = start_run(tool, folder, n_trees, out, python)
                if found is None:
                    continue
                found |= measure(found.pop("rows"), test_Y, frequency, X.shape[0])
                found["memory"] = found["peak"] - found["before"]
                for name in ("train", "predict", "memory", "peak"):
                    found[name] = min(found[name], figures.get(tool, found)[name])
                figures[tool] = found
    table = Table("tool", "P@1", "P@3", "P@5", "nDCG@5", "PSP@5", "train s", "predict s", "adds MB", "peak MB",
                  "model MB", title=f"{os.path.basename(folder)}, {n_trees} tree{'s'[: n_trees - 1]}")  # fmt: skip
    for tool, found in figures.items():
        table.add_row(
            tool, *(f"{found[name]:.2f}" for name in ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5", "train")),
            f"{found['predict']:.3f}", f"{found['memory']:.0f}", f"{found['peak']:.0f}", f"{found['size']:.1f}",
        )  # fmt: skip
    console.print(table)
    return figures


def judge(console, results: dict[tuple[str, int], dict[str, dict]]) -> bool:
    """Print every goal with its worst case; gives whether all hold."""
    from rich.table import Table

    table = Table("goal", "worst case", "holds")
    held = True

    def say(goal: str, worst: str, holds: bool) -> None:
        nonlocal held
        held &= holds
        table.add_row(goal, worst, "yes" if holds else "NO")

    for (name, n_trees), of_tools in results.items():
        where, ours = f"{name}, {n_trees} tree{'s'[: n_trees - 1]}", of_tools["xpipe"]
        for tool, found in of_tools.items():
            for metric in ("P@1", "P@3", "P@5"):
                named_figures.record(f"{where}, {tool}: {metric}", found[metric])
            if tool in PEERS:
                for what in ("train", "predict", "memory"):
                    named_figures.record(f"{where}, {tool}: {what}, over ours", found[what] / max(ours[what], 1e-9))
    peers = [tool for tool in PEERS if any(tool in figures for figures in results.values())]
    names = ("P@1", "P@3", "P@5")
    gaps, train, predict, memory = [], [], [], []
    for (name, n_trees), figures in results.items():
        ours, where = figures["xpipe"], f"{name}, {n_trees}"
        for peer in peers:
            if peer not in figures:
                continue
            theirs = figures[peer]
            gaps += [(ours[metric] - theirs[metric], f"{metric}, {where}, {peer}") for metric in names]
            train.append((theirs["train"] / ours["train"], f"{where}, {peer}"))
            memory.append((theirs["memory"] / max(ours["memory"], 1), f"{where}, {peer}"))
            if peer != "PECOS":
                predict.append((theirs["predict"] / ours["predict"], f"{where}, {peer}"))
    gap, where = min(gaps)
    say(f"no precision more than {SLACK} below another's", f"{gap:+.2f} ({where})", gap >= -SLACK)
    for peer in peers:
        shared = [figures for figures in results.values() if peer in figures]
        mean = np.mean([figures["xpipe"][metric] - figures[peer][metric] for figures in shared for metric in names])
        say(f"mean precision above {peer}", f"{mean:+.2f}", bool(mean > 0))
    for goal, ratios, least in (
        ("training at least as fast", train, 1.0),
        (f"prediction {FASTER:g}x faster", predict, FASTER),
        ("no more memory added", memory, 1.0),
    ):
        ratio, where = min(ratios)
        say(goal, f"{ratio:.2f}x ({where})", ratio >= least)
    console.print(table)
    return held


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", help="folder of the sets; default: a stand-in of EURLex-4K made here")
    parser.add_argument("--sets", help=f"default: {','.join(SETS)}")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--wide", type=int, metavar="ROWS", help=f"so many rows of the stand-in of {WIDE}, 1 tree")
    parser.add_argument("--pecos", default=PECOS_PYTHON, help="python of an environment with libpecos and scipy")
    parser.add_argument("--run", choices=list(RUNS), help=argparse.SUPPRESS)
    parser.add_argument("--trees", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    named_figures.add_option(parser)
    options = parser.parse_args()
    if options.run:
        rows, figures = RUNS[options.run](options.folder, options.trees, options.out)
        with open(f"{options.out}.json", "w") as stream:
            json.dump({"rows": [[int(label) for label in row] for row in rows], **figures}, stream)
        return 0
    from rich.console import Console

    from xpipe.synth.stand_in import synthesize

    console = Console(width=140)
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        if options.wide:
            options.folder, options.sets = scratch, f"{WIDE}-{options.wide}"
            write_wide(os.path.join(scratch, options.sets), options.wide)
            console.print(f"SYNTHETIC stand-in of {WIDE}")
        elif options.folder is None:
            synthesize(STAND_IN, seed=0, out=os.path.join(scratch, STAND_IN))
            console.print(f"SYNTHETIC stand-in of {STAND_IN}")
        names = (options.sets or (",".join(SETS) if options.folder else STAND_IN)).split(",")
        for name in names:
            for n_trees in TREES[:1] if options.wide else TREES:
                tools = {tool: sys.executable for tool in RUNS if tool != "PECOS"}
                if options.wide:
                    del tools["napkinXC"]  # it takes more than 17 GB here
                if os.path.exists(options.pecos) and n_trees == 1:
                    tools["PECOS"] = options.pecos
                folder = os.path.join(options.folder or scratch, name)
                results[name, n_trees] = compare_set(console, folder, n_trees, tools, options.rounds)
    loading = max(figures["xpipe"]["loading"] for figures in results.values())
    console.print(
        f"2 threads, best of {options.rounds} rounds; xpipe loads its kernels in {loading:.1f} s or less, once"
    )
    held = judge(console, results)
    named_figures.write(options.json)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
