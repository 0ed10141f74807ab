"""CONTRIBUTING to the letter: what it tells to write works, with the changes of existing files it tells, and no others.

A toy stage, format and head need one registry line each. A head with options is tests/heads/test_toy_head.py.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest

from tests.markdown import Block, apply_diff, blocks_of
from tests.samples import random_matrices, write_dataset
from xpipe import config
from xpipe.cli.progress import Progress
from xpipe.engine import execute
from xpipe.errors import DataError
from xpipe.ground import backend

TOP = Path(__file__).parent.parent
LONGEST = 60  # lines of code that an afternoon's first version may take


def blocks_below(heading: str) -> list[Block]:
    """The blocks of a section of CONTRIBUTING."""
    lines = (TOP / "CONTRIBUTING.md").read_text().splitlines()
    start = lines.index(heading)
    end = next((n for n in range(start + 1, len(lines)) if lines[n].startswith("## ")), len(lines))
    return [block for block in blocks_of(TOP / "CONTRIBUTING.md") if start < block.line <= end]


def write_modules(blocks: list[Block], top: Path, patch: pytest.MonkeyPatch) -> None:
    """Write the files of a walk below `top`, and let the package find them there."""
    written = [block for block in blocks if block.file_name]
    assert sum(len([line for line in block.lines if line.strip()]) for block in written) < LONGEST
    for block in written:
        assert block.file_name is not None
        assert not (TOP / block.file_name).exists(), "the walk may change existing files by registry lines alone"
        path = top / block.file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)
    for package in ("xpipe.stages", "xpipe.formats", "xpipe.heads", "xpipe.eagle"):
        module = importlib.import_module(package)
        patch.setattr(module, "__path__", [*module.__path__, str(top / package.replace(".", "/"))])
    importlib.invalidate_caches()


def changed_module(diff: Block, patch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the project as it is after a change that a walk asks for; the project keeps its own."""
    path, changed = apply_diff(diff, TOP)
    module = ModuleType("changed_module")
    patch.setitem(sys.modules, module.__name__, module)  # dataclasses look their module up
    exec(compile(changed, str(path), "exec", dont_inherit=True), vars(module))
    return module


def registry_of(blocks: list[Block], name: str, patch: pytest.MonkeyPatch) -> Any:
    """A registry as it is after the one change of an existing file that the walk asks for."""
    (diff,) = (block for block in blocks if block.kind == "diff")
    return getattr(changed_module(diff, patch), name)


def run(path: Path, *overrides: str, stages: tuple) -> dict:
    with Progress(mode="quiet") as progress:
        return execute.run(config.load(path, overrides, stages=stages), progress, backend.choose("cpu"))


@pytest.fixture
def pipeline(tmp_path):
    """A small pipeline in this process."""
    path = tmp_path / "toy.yaml"
    path.write_text(
        f"name: toy\ndata: {{dir: {write_dataset(tmp_path / 'data')}, part_rows: 100}}\n"
        "rare_labels: {fewer_than: 60}\nemit: {datasets: [tree]}\n"
        f"cluster: none\nout: {tmp_path / 'runs' / 'toy'}\n"
    )
    return path


def test_a_toy_stage(tmp_path, pipeline, monkeypatch):
    blocks = blocks_below("## Add a stage")
    write_modules(blocks, tmp_path, monkeypatch)
    stages = registry_of(blocks, "STAGES", monkeypatch)
    results = run(pipeline, stages=stages)
    _, Y = random_matrices(300)
    rare = [label for label in range(12) if Y[:, [label]].nnz < 60]
    assert 3 in rare
    assert len(rare) < 12
    assert json.loads((tmp_path / "runs" / "toy" / "rare_labels.json").read_text()) == rare
    (made,) = (stage for stage in results["stages"] if stage["stage"] == "rare_labels")
    assert made["summary"] == {"rare": len(rare)}
    again = run(pipeline, stages=stages)
    assert {stage["status"] for stage in again["stages"]} == {"cached"}
    changed = run(pipeline, "rare_labels.fewer_than=1", stages=stages)
    status = {stage["stage"]: stage["status"] for stage in changed["stages"]}
    assert status["rare_labels"] != "cached"
    assert status["read"] == "cached"
    assert json.loads((tmp_path / "runs" / "toy" / "rare_labels.json").read_text()) == [3]


def test_a_toy_format(tmp_path, monkeypatch):
    from xpipe.formats import matrix_formats, read_dataset, read_sparse, write_sparse
    from xpipe.stages import STAGES

    blocks = blocks_below("## Add a format")
    write_modules(blocks, tmp_path, monkeypatch)
    before = {form.name for form in matrix_formats.MATRIX_FORMATS}
    (added,) = (form for form in registry_of(blocks, "MATRIX_FORMATS", monkeypatch) if form.name not in before)
    matrix_formats.MATRIX_FORMATS.append(added)  # other modules hold this very list
    try:
        folder = tmp_path / "matrices"
        folder.mkdir()
        X, Y = random_matrices(40)
        for name, matrix in (("X.trn.mtx", X), ("Y.trn.mtx", Y)):
            write_sparse(str(folder / name), matrix)
            assert (read_sparse(str(folder / name)) != matrix).nnz == 0
        data = read_dataset(str(folder))
        assert data.layout.format == "mtx"
        assert (data.train.X != X).nnz == 0
        assert (data.train.Y != Y).nnz == 0
        path = tmp_path / "mtx.yaml"
        path.write_text(
            f"name: mtx\ndata: {{dir: {folder}}}\nemit: {{}}\ncluster: none\nout: {tmp_path / 'runs'}/mtx\n"
        )
        results = run(path, stages=STAGES)
        assert "Matrix Market" in results["stages"][0]["summary"]["recognised"]
        (folder / "X.trn.mtx").write_text("no matrix")
        with pytest.raises(DataError, match="not a Matrix Market file"):
            read_dataset(str(folder))
    finally:
        matrix_formats.MATRIX_FORMATS.remove(added)


def test_a_toy_head(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    from xpipe.argmaxability import verify
    from xpipe.heads import HEADS, HeadKind, Targets, load_head, make_head

    blocks = blocks_below("## Add a head")
    write_modules(blocks, tmp_path, monkeypatch)
    changed = registry_of(blocks, "HEADS", monkeypatch)
    (added,) = changed.keys() - HEADS.keys()
    monkeypatch.setitem(HEADS, added, HeadKind(changed[added].place))
    head = make_head("hinge", in_dim=5, n_labels=7)
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    targets = Targets.of([[0, 6], [2], []])
    before = head.loss(head(x), targets)
    before.backward()
    torch.optim.SGD(head.parameters(), lr=0.01).step()
    assert head.loss(head(x), targets) < before
    head.save(str(tmp_path / "head.safetensors"))
    assert torch.equal(load_head(str(tmp_path / "head.safetensors"))(x), head(x))
    W, bias = head.weights()
    _, Y = random_matrices(1, n_labels=7)
    assert verify(W, Y, bias).status[0] in ("argmaxable", "unargmaxable")


def test_a_toy_method(tmp_path, monkeypatch):
    from xpipe.eagle.options import ImputeOptions
    from xpipe.grouping import random_groups

    blocks = blocks_below("## Add an assignment method")
    write_modules(blocks, tmp_path, monkeypatch)
    options, plan = (changed_module(block, monkeypatch) for block in blocks if block.kind == "diff")
    assert "longest" in get_args(options.Method)
    X, Y = random_matrices(40)
    Y1, Y2 = random_groups(Y, size=4, seed=0)

    class Rows:
        def take(self, samples, *, scaled):
            return X if samples is None else X[samples]

    decision = plan.Decision(ImputeOptions(), "longest")
    owners = plan.assign_chunk(decision, Rows(), plan.Chunk(None, Y1, Y2), threads=1).scores
    longest = [max(range(40), key=lambda row: (Y1[row, group], X[row].power(2).sum())) for group in range(10)]
    for group, row in enumerate(longest):
        assert owners[row].indices.tolist() == Y2[group].indices.tolist()
    assert owners.nnz == Y2.nnz
