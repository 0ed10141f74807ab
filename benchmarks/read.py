"""How fast is read_xmc, and how much memory does it take, next to the readers of other projects?

    python benchmarks/read.py [train.txt] [--rounds 5]

Reads the same file (a stand-in of about 70 MB by default) with every reader, round by round, in one run, and says
whether the goals hold: 2x omikuji, 4x napkinXC, 10x scikit-learn, peak memory at most 2x the arrays. Exit code 1 if
one does not.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import named_figures

ROUNDS = 5
THREADS = 2
GOALS = {"omikuji": 2, "napkinXC": 4, "scikit-learn": 10}
INSTALL = {"omikuji": "omikuji", "napkinXC": "napkinxc", "scikit-learn": "scikit-learn"}
MEMORY_GOAL = 2.0


def write_stand_in(path: str) -> None:
    """45,000 rows of about 107 TF-IDF-like values with six digits, and five labels each."""
    import numpy as np
    import scipy.sparse as sp

    from xpipe.formats import write_xmc

    draw = np.random.default_rng(0)
    n_samples, n_features, n_labels = 45_000, 5_000, 4_271
    rows = np.repeat(np.arange(n_samples), draw.poisson(108, n_samples))
    columns = (n_features * draw.random(len(rows)) ** 1.5).astype(np.int32)
    X = sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=(n_samples, n_features))
    digits = 10.0 ** (5 - np.floor(np.log10(values := draw.lognormal(-2.6, 0.5, X.nnz))))
    X.data = (np.round(values * digits) / digits).astype(np.float32)
    labels = (n_labels * draw.random(n_samples * 5) ** 3).astype(np.int32)
    pairs = (np.ones(len(labels), np.float32), (np.repeat(np.arange(n_samples), 5), labels))
    Y = sp.csr_matrix(pairs, shape=(n_samples, n_labels))
    Y.data[:] = 1
    write_xmc(path, X, Y)


def seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def read_ours(path: str) -> float:
    from xpipe.formats import read_xmc

    return seconds(lambda: read_xmc(path, threads=THREADS))


def read_sklearn(path: str) -> float:
    from sklearn.datasets import load_svmlight_file

    with open(path) as stream:
        n_features = int(stream.readline().split()[1])
    options = {"n_features": n_features, "multilabel": True, "zero_based": True, "offset": 1}  # offset: past the header
    return seconds(lambda: load_svmlight_file(path, **options))


def read_napkinxc(path: str) -> float:
    from napkinxc.datasets import load_libsvm_file

    return seconds(lambda: load_libsvm_file(path))


OMIKUJI = """
import sys
from omikuji import _ThreadPoolHandle, ffi, lib
data = lib.load_omikuji_data_set(ffi.new("char[]", sys.argv[1].encode()), _ThreadPoolHandle(int(sys.argv[2])).ptr)
sys.exit(data == ffi.NULL)
"""


def read_omikuji(path: str) -> float:
    """The load time omikuji logs itself; in a process of its own, because its log goes past Python."""
    import omikuji  # noqa: F401  is it there?

    run = subprocess.run(
        [sys.executable, "-c", OMIKUJI, path, str(THREADS)], capture_output=True, text=True, check=True
    )
    logged = re.search(r"it took ([\d.]+)s", run.stdout + run.stderr)
    if logged is None:
        raise RuntimeError(f"omikuji logged no load time: {run.stdout!r}")
    return float(logged[1])


MEMORY = """
import json, re, sys
from xpipe.formats import read_xmc
def status(name):
    return int(re.search(name + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
read_xmc(sys.argv[2], threads=int(sys.argv[3]))  # compiles, or loads what is compiled
try:
    open("/proc/self/clear_refs", "w").write("5")  # start the peak anew
    before = status("VmRSS")
except OSError:
    before = status("VmHWM")
X, Y = read_xmc(sys.argv[1], threads=int(sys.argv[3]))
arrays = sum(a.nbytes for m in (X, Y) for a in (m.indptr, m.indices, m.data))
print(json.dumps({"peak": status("VmHWM") - before, "arrays": arrays}))
"""


def measure_memory(path: str, folder: str) -> dict[str, int] | None:
    """Peak memory of one read_xmc beyond what the process had before it, and the bytes of its arrays."""
    if not os.path.exists("/proc/self/status"):
        return None
    tiny = os.path.join(folder, "tiny.txt")
    with open(tiny, "w") as stream:
        stream.write("1 2 2\n1 1:1\n")
    command = [sys.executable, "-c", MEMORY, path, tiny, str(THREADS)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure_compilation() -> float:
    """Seconds the kernels take to compile, in a process without a cache of compiled code."""
    code = "import time; from xpipe.formats.text import compile_kernels as go\n"
    code += "a = time.perf_counter(); go(); b = time.perf_counter(); go(); print(2 * b - a - time.perf_counter())"
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return float(run.stdout)


def main() -> int:
    from rich.console import Console
    from rich.table import Table

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", help="XMC text with its header; default: a stand-in made here")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    named_figures.add_option(parser)
    options = parser.parse_args()
    path = options.path
    console = Console()
    held = True
    with tempfile.TemporaryDirectory() as folder:
        if path is None:
            path = os.path.join(folder, "train.txt")
            write_stand_in(path)
        megabytes = os.path.getsize(path) / 1e6
        console.print(
            f"{path}: {megabytes:.1f} MB; {THREADS} threads for read_xmc and omikuji; best of {options.rounds} rounds"
        )
        first = read_ours(path)
        readers = {
            "read_xmc": read_ours,
            "omikuji": read_omikuji,
            "napkinXC": read_napkinxc,
            "scikit-learn": read_sklearn,
        }
        best: dict[str, float] = {}
        for _ in range(options.rounds):  # round by round: other work on the machine then slows down all of them alike
            for name, read in readers.items():
                try:
                    best[name] = min(best.get(name, float("inf")), read(path))
                except ModuleNotFoundError:
                    best.pop(name, None)
        table = Table("reader", "seconds", "MB/s", "read_xmc is", "goal", "holds")
        for name in readers:
            if name not in best:
                table.add_row(name, "-", "-", "-", "-", f"not installed: pip install {INSTALL[name]}")
                continue
            ratio = best[name] / best["read_xmc"]
            goal = GOALS.get(name)
            if name != "read_xmc":
                named_figures.record(f"faster than {name}", ratio)
            held &= goal is None or ratio >= goal
            cells = (
                ("", "", "") if goal is None else (f"{ratio:.1f}x faster", f"{goal}x", "yes" if ratio >= goal else "NO")
            )
            table.add_row(name, f"{best[name]:.3f}", f"{megabytes / best[name]:.0f}", *cells)
        console.print(table)
        console.print(
            f"not counted above: compiling the kernels once a machine takes {measure_compilation():.1f} s; "
            f"the first read of this process, with what was compiled before, took {first:.2f} s"
        )
        memory = measure_memory(path, folder)
        if memory is None:
            console.print("peak memory: only measured on Linux")
        else:
            ratio = memory["peak"] / memory["arrays"]
            named_figures.record("peak memory over that of the arrays", ratio)
            held &= ratio <= MEMORY_GOAL
            console.print(
                f"peak memory: {memory['peak'] / 1e6:.0f} MB for arrays of {memory['arrays'] / 1e6:.0f} MB: "
                f"{ratio:.2f}x, goal at most {MEMORY_GOAL:g}x: {'yes' if ratio <= MEMORY_GOAL else 'NO'}"
            )
    named_figures.write(options.json)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
