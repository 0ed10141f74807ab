"""A reader who does what the pages say: runs every block of a page in order, in a folder with small data.

The folder holds a small run of pipelines/eurlex.yaml at runs/eurlex, the committed data and pipelines, a dataset at
data/mine, and files with the names that the commands use.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import yaml

from tests.markdown import Block, apply_diff
from tests.samples import combinations, run_pipeline, run_xpipe

TOP = Path(__file__).parent.parent.parent
CODE = ("python", "yaml", "sh", "console", "diff", "text")
DIRECTIVES = ("{toctree}", "{image}", "{include}")  # of the site; they hold no code
SMALL = (  # what makes pipelines/eurlex.yaml a matter of seconds
    "data={name: tiny, dir: data/none, if_missing: synthesize, part_rows: 200}",
    "train={tree: {n_trees: 1}, heads: [{layer: bsl, dim: 8, width: 16, epochs: 2}]}",
    "evaluate.resamples=10",
    "cluster=none",
    "backend=cpu",
    "out=runs/eurlex",
)
ABOUT = 0.25  # in blocks `console about`: trained models end in other last bits on other types of CPU
IN_PROCESS = ("--set", "cluster=none", "--set", "backend=cpu")  # changes no byte and saves the start of workers
# Figures that differ from run to run: seconds (one decimal), durations and sizes of memory and files.
NUMBER = re.compile(r"(\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)")
VOLATILE = re.compile(r"[\d.,]+ ?(?:ms|min|s|B|KiB|MiB|GiB)\b|\b\d+\.\d\b")


def prepare_folder(folder: Path) -> None:
    """Fill the current folder, `folder`, with what the pages speak of."""
    run_pipeline(TOP / "pipelines" / "eurlex.yaml", *SMALL)
    from xpipe.formats import parquet, write_xmc

    for sample in ("tiny", "recipes"):
        shutil.copytree(TOP / "data" / sample, folder / "data" / sample)
    shutil.copytree(TOP / "pipelines", folder / "pipelines")
    (folder / "data" / "mine").mkdir()
    for split in ("train", "test"):
        X, Y = parquet.read_split("runs/eurlex/tree", split)
        for path in (f"{split}.txt", f"data/mine/{split}.txt"):
            write_xmc(path, X, binary(Y))
    sp.save_npz("scores.npz", binary(Y))
    np.save("W.npy", unable_weights(Y))
    Path("labels.txt").write_text("".join(f"name {label}\n" for label in range(Y.shape[1])))


def binary(Y: sp.csr_matrix) -> sp.csr_matrix:
    return sp.csr_matrix((np.ones(len(Y.indices), np.float32), Y.indices, Y.indptr), Y.shape)


def unable_weights(Y: sp.csr_matrix, row: int = 3) -> np.ndarray:
    """Weights of two columns that cannot produce the given row of Y, which has labels."""
    from xpipe.argmaxability import verify

    for seed in range(100):
        W = np.random.default_rng(seed).standard_normal((Y.shape[1], 2))
        if verify(W, binary(Y)[row : row + 1]).status[0] == "unargmaxable":
            return W
    raise AssertionError("every set of two columns can be produced")


def given_names() -> dict[str, Any]:
    """What the text calls yours: probabilities, weights and names."""
    from xpipe.formats import parquet

    _, Y = parquet.read_split("runs/eurlex/tree", "train")
    _, Y_test = parquet.read_split("runs/eurlex/tree", "test")
    P = binary(Y_test) * np.float32(0.75)
    names = [f"n{label}" for label in range(Y.shape[1])]
    return {"P": P, "P_unknown": P * np.float32(0.5), "W": unable_weights(Y), "names": names}


@dataclass
class Reader:
    """Reads one page: names of python blocks last until its end."""

    page: Path
    folder: Path
    names: dict[str, Any] = field(default_factory=given_names)

    def follow(self, block: Block) -> None:
        """Do what a block says."""
        if block.kind in DIRECTIVES or is_missing(block):
            return
        assert block.kind in CODE, (
            f"{block} is {block.kind}: write ```python, yaml, sh, console, diff or text before it"
        )
        if block.file_name:
            path = self.folder / block.file_name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        getattr(self, f"_{block.kind}")(block)

    def _python(self, block: Block) -> None:
        code = compile("\n" * block.line + block.text, str(self.page), "exec", dont_inherit=True)
        if not block.file_name:  # a module of its own otherwise
            exec(code, self.names)

    def _yaml(self, block: Block) -> None:
        """A whole pipeline, or sections of one; or clusters.yaml, whose names the pipelines that follow may use."""
        from xpipe import config

        if block.file_name == "clusters.yaml":
            os.environ["XPIPE_CLUSTERS"] = str(self.folder / block.file_name)  # the test restores it
            assert config.clusters.read_clusters()
            return
        path = self.folder / "page.yaml"
        missing = {"name": "part", "data": "{dir: data/mine}"}
        for section in yaml.safe_load(block.text):
            missing.pop(section, None)
        path.write_text("".join(f"{key}: {value}\n" for key, value in missing.items()) + block.text)
        checked = config.load(path)
        assert not checked.matrix or combinations(path), block

    def _diff(self, block: Block) -> None:
        """A change of one file of the project: it must fit, and the file must be Python afterwards."""
        path, changed = apply_diff(block, TOP)
        compile(changed, str(path), "exec", dont_inherit=True)

    def _text(self, block: Block) -> None:
        """Pictures of folders: their file names must be those of the run or of the package."""
        there = {path.name for top in (self.folder / "runs", TOP / "xpipe") for path in top.rglob("*")} | {"xpipe"}
        for word in re.findall(r"[\w=*-]+(?:/|\.json|\.parquet)[\w.=/-]*", block.text):
            name = word.strip("/").split("/")[-1].rstrip(".") or word.split("/")[0]
            assert name in there, f"{block} names {word}"

    def _sh(self, block: Block) -> None:
        commands = [line for line in block.lines if line.strip() and not line.startswith("#")]
        assert commands, f"{block} has no command"
        for command in commands:
            self._run(block, command)

    def _console(self, block: Block) -> None:
        """Lines after `$ ` are commands; the others must be in what the command before them prints."""
        assert block.lines[0].startswith("$ "), f"{block}: a console block begins with `$ ` and its command"
        output = None
        for line in block.lines:
            if line.startswith("$ "):
                output = self._run(block, line[2:])
            elif output is not None and "titles" in block.words:
                missing = [title for title in titles_of(line) if title not in output]
                assert not missing, f"{block} shows {missing}, the command does not"
            elif output is not None and plain(line) not in ("", "..."):
                tolerance = ABOUT if "about" in block.words else 0.0
                found = any(alike(line, printed, tolerance) for printed in output.splitlines())
                assert found, f"{block} shows {line!r}, the command prints:\n{output}"

    def _settings(self) -> tuple[str, ...]:
        """What runs of this page are given: reports are drawn where the page speaks of them."""
        return IN_PROCESS if "report.html" in self.page.read_text() else (*IN_PROCESS, "--set", "report=none")

    def _run(self, block: Block, command: str) -> str | None:
        """What a command prints; None for make, whose target must exist."""
        words = shlex.split(command, comments=True)
        if words[0] == "make":
            targets = re.findall(r"^([a-z-]+):", (TOP / "Makefile").read_text(), re.MULTILINE)
            if words[1:2] == ["reproduce"]:
                targets += [path.stem for path in (TOP / "reproductions").glob("*.yaml")]
            goals = [word for word in words[1:] if "=" not in word]
            assert set(goals) <= set(targets), f"{block}: {command}"
            return None
        assert words[0] == "xpipe", f"{block}: {command}"
        settings = self._settings() if words[1] in ("run", "plan") else ()
        code, output = run_xpipe(*words[1:], *settings, cwd=self.folder)
        fine = (0, 1) if words[1] == "verify" else (0,)  # 1: some sets cannot be produced
        assert code in fine, f"{block}: {command}\n{output}"
        return output


def is_missing(block: Block) -> bool:
    """Whether a block ```python needs PACKAGE is of a package that is not here. tests/ecosystem runs these blocks."""
    needed = block.words[1:] if block.words[:1] == ("needs",) else ()
    return any(find_spec(package) is None for package in needed)


def titles_of(line: str) -> list[str]:
    """Titles of the columns, where the line is the head of a table."""
    return [title.strip() for title in line.strip("┃").split("┃")] if line.startswith("┃") else []


def alike(shown: str, printed: str, tolerance: float) -> bool:
    """Whether two lines have the same words, and figures that differ by this share at most."""
    words, others = (re.split(NUMBER, plain(line)) for line in (shown, printed))
    figures, other_figures = ([float(text.replace(",", "")) for text in each[1::2]] for each in (words, others))
    return words[::2] == others[::2] and all(
        abs(a - b) <= tolerance * max(abs(a), abs(b)) for a, b in zip(figures, other_figures, strict=True)
    )


def plain(line: str) -> str:
    """A printed line without box drawing, and with figures that differ from run to run replaced."""
    words = re.sub(r"[\u2500-\u257f]", " ", VOLATILE.sub("#", line)).split()
    return " ".join(words)
