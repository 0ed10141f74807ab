"""Counts what is compiled of each kernel: by the functions that stages name for it, and by a run. Holds no expectation.

python -m tests.stages.count_kernels FOLDER leaves {"stages": {kernel: signatures}, "run": {kernel: signatures},
"steps": [kernels that kernels call]} in FOLDER/found.json. Signatures add up in a process: this needs one of its own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.samples import run_pipeline
from xpipe.ground.accelerate import Kernel
from xpipe.stages import STAGES

PIPELINE = """
data: {name: tiny, if_missing: synthesize}
group: {rule: random, size: 4}
embed: {steps: 2}
assign: {method: auto, steps: 2}
emit: {datasets: [tree, heads], formats: [parquet]}
train: {tree: {n_trees: 3}, heads: [{layer: bsl, dim: 4, epochs: 1}]}
verify: {split: test}
evaluate: {split: test, k: 5}
cluster: none
"""
METHODS = ("baseline", "eagle", "discriminative")


def kernels() -> dict[str, Kernel]:
    """All kernels that are imported, by their names."""
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("xpipe.")]
    found = [each for module in modules for each in vars(module).values() if isinstance(each, Kernel)]
    return {name_of(kernel): kernel for kernel in found}


def name_of(kernel: Kernel) -> str:
    return f"{kernel.__module__}.{kernel.__qualname__}"


def compiled() -> dict[str, list[str]]:
    """The signatures of each kernel that Python has called so far."""
    return {name: list(map(str, kernel.whole.signatures)) for name, kernel in sorted(kernels().items())}


def steps() -> list[str]:
    """The kernels whose names stand in other kernels."""
    bodies = [kernel.__wrapped__ for kernel in kernels().values()]
    called = [body.__globals__.get(name) for body in bodies for name in body.__code__.co_names]
    return sorted({name_of(each) for each in called if isinstance(each, Kernel)})


def count(folder: Path) -> None:
    for stage in STAGES:
        if stage.compile is not None:
            stage.compile()
    found: dict[str, object] = {"stages": compiled()}
    pipeline = folder / "tiny.yaml"
    pipeline.write_text(f"name: tiny\nout: {folder}/runs/tiny\n{PIPELINE}")
    run_pipeline(pipeline)
    for method in METHODS:
        run_pipeline(pipeline, f"assign.method={method}", f"out={folder}/runs/{method}")
    found |= {"run": compiled(), "steps": steps()}
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    count(Path(sys.argv[1]))
